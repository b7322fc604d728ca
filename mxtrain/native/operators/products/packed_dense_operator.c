/* Dense layers as operators of nets that answer: the first packs weights (outputs, inputs) and a bias (outputs); the second
   computes `outputs` by them, of data (..., inputs). */

#include <stdint.h>

#include "products/large_pages.h"
#include "operator.h"
#include "products/packed_dense.h"

#define LEAST_OF_THREAD 131072 /* multiplications: with less, waiting for each other takes longer */

static int packed_shape(Attributes attributes, FoundShape *inputs, FoundShape *output) {
    int64_t outputs = whole_number(attributes, "outputs"), *of_weights = inputs[0].sizes;
    if (outputs < 1 || inputs[0].count != 2 || of_weights[0] != outputs || of_weights[1] < 1) return FAILED;
    *output = (FoundShape){{(int64_t)packed_size((size_t)of_weights[1], (size_t)outputs)}, 1};
    return has_sizes(&inputs[1], 1, &outputs) ? DONE : FAILED;
}

static int pack_weights(const Call *call) {
    const int64_t *sizes = call->inputs[0].sizes;
    pack((size_t)sizes[1], (size_t)sizes[0], call->in[0], call->in[1], call->out[0], call->num_threads);
    return DONE;
}

static int shape(Attributes attributes, FoundShape *inputs, FoundShape *output) {
    const FoundShape *data = inputs;
    int64_t outputs = whole_number(attributes, "outputs"), depth = data->count ? data->sizes[data->count - 1] : 0;
    if (data->count < 2 || outputs < 1 || depth < 1) return FAILED;
    int64_t weights[] = {(int64_t)packed_size((size_t)depth, (size_t)outputs)};
    *output = *data;
    output->sizes[output->count - 1] = outputs;
    return has_sizes(&inputs[1], 1, weights) ? DONE : FAILED;
}

static int forward(const Call *call) {
    const Shape *data = call->inputs;
    PackedDense dense = {.rows = 1,
                         .inputs = (size_t)data->sizes[data->count - 1],
                         .outputs = size_of(call->attributes, "outputs"),
                         .data = call->in[0],
                         .weights = call->in[1]};
    for (int at = 0; at < data->count - 1; at++) dense.rows *= (size_t)data->sizes[at];
    size_t useful = dense.rows * dense.inputs * dense.outputs / LEAST_OF_THREAD + 1;
    int threads = useful < (size_t)call->num_threads ? (int)useful : call->num_threads;
    size_t bytes = packed_scratch(&dense, threads) * sizeof(float);
    float *scratch = bytes > INT32_MAX ? NULL : call->allocate(call->allocator, (int)bytes);
    if (!scratch) return FAILED;
    ask_for_large_pages(call->out[0], dense.rows * dense.outputs * sizeof(float));
    packed_forward(&dense, call->out[0], scratch, threads);
    return DONE;
}

const Operator packed_weights_operator = {"mxtrain_packed_weights", 2, 1, packed_shape, pack_weights, no_backward, 0, {0}};
const Operator packed_dense_operator = {"mxtrain_packed_dense", 2, 1, shape, forward, no_backward, 0, {0}};
