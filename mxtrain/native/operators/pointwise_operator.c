/* Convolutions of 1 x 1, and what makes their weights: the convolution's, folded with a norm by running statistics.
   The convolution takes data, gates where it has them, those weights, and what is added where something is. */

#include <string.h>

#include "operator.h"
#include "pointwise.h"

static int fold_shape(Attributes attributes, FoundShape *inputs, FoundShape *outputs) {
    int64_t rows = whole_number(attributes, "outputs"), depth = whole_number(attributes, "inputs");
    int64_t weights[] = {rows, depth, 1, 1};
    if (rows < 1 || depth < 1) return FAILED;
    for (int at = 0; at < 5; at++)
        if (!has_sizes(&inputs[at], at ? 1 : 4, weights)) return FAILED;
    outputs[0] = (FoundShape){{(int64_t)folded_size((size_t)rows, (size_t)depth)}, 1};
    return DONE;
}

static int fold(const Call *call) {
    FoldedNorm norm = {.outputs = (size_t)call->inputs[0].sizes[0],
                       .inputs = (size_t)call->inputs[0].sizes[1],
                       .weights = call->in[0],
                       .gamma = whole_number(call->attributes, "is_fixed") ? NULL : call->in[1],
                       .beta = call->in[2],
                       .mean = call->in[3],
                       .variance = call->in[4],
                       .epsilon = number(call->attributes, "epsilon", 1e-3f)};
    fold_norm(&norm, call->out[0]);
    return DONE;
}

static int shape(Attributes attributes, FoundShape *inputs, FoundShape *outputs, int has_gates, int has_added) {
    const int64_t *data = inputs[0].sizes;
    int64_t rows = whole_number(attributes, "outputs");
    if (inputs[0].count != 4 || data[0] < 1 || data[1] < 1 || data[2] < 1 || data[3] < 1 || rows < 1) return FAILED;
    int64_t gates[] = {data[0], data[1], 1, 1}, weights[] = {(int64_t)folded_size((size_t)rows, (size_t)data[1])};
    outputs[0] = (FoundShape){{data[0], rows, data[2], data[3]}, 4};
    if (has_gates && !has_sizes(&inputs[1], 4, gates)) return FAILED;
    if (has_added && !has_sizes(&inputs[2 + has_gates], 4, outputs[0].sizes)) return FAILED;
    return has_sizes(&inputs[1 + has_gates], 1, weights) ? DONE : FAILED;
}

static int forward(const Call *call, int has_gates, int has_added) {
    const int64_t *data = call->inputs[0].sizes;
    Pointwise layer = {.batch = (size_t)data[0],
                       .inputs = (size_t)data[1],
                       .plane = (size_t)(data[2] * data[3]),
                       .outputs = (size_t)call->outputs[0].sizes[1],
                       .in = call->in[0],
                       .weights = call->in[1 + has_gates],
                       .gates = has_gates ? call->in[1] : NULL,
                       .added = has_added ? call->in[2 + has_gates] : NULL,
                       .activation = activation_of(text(call->attributes, "activation"))};
    int threads;
    float *scratch = scratch_memory(call, pointwise_scratch(&layer) * sizeof(float), (size_t)call->num_threads, &threads);
    if (!scratch) return FAILED;
    pointwise_forward(&layer, call->out[0], scratch, threads);
    return DONE;
}

#define OPERATOR(name, called, has_gates, has_added)                                                                  \
    static int name##_shape(Attributes attributes, FoundShape *inputs, FoundShape *outputs) {                         \
        return shape(attributes, inputs, outputs, has_gates, has_added);                                              \
    }                                                                                                                 \
    static int name##_compute(const Call *call) { return forward(call, has_gates, has_added); }                       \
    const Operator name##_operator = {called, 2 + has_gates + has_added, 1, name##_shape, name##_compute, no_backward, 0, {0}};

OPERATOR(pointwise, "mxtrain_pointwise", 0, 0)
OPERATOR(pointwise_sum, "mxtrain_pointwise_sum", 0, 1)
OPERATOR(gated_pointwise, "mxtrain_gated_pointwise", 1, 0)
OPERATOR(gated_pointwise_sum, "mxtrain_gated_pointwise_sum", 1, 1)
const Operator folded_norm_operator = {"mxtrain_folded_norm", 5, 1, fold_shape, fold, no_backward, 0, {0}};
