/* A dense layer as an operator: of data (..., inputs), weights (outputs, inputs) and a bias (outputs). */

#include <limits.h>

#include "products/dense.h"
#include "operator.h"

static int shape(Attributes attributes, FoundShape *inputs, FoundShape *output) {
    const FoundShape *data = inputs;
    int64_t outputs = whole_number(attributes, "outputs");
    if (data->count < 2 || outputs < 1) return FAILED;
    const int64_t of_weights[] = {outputs, data->sizes[data->count - 1]};
    if (!has_sizes(&inputs[1], 2, of_weights) || !has_sizes(&inputs[2], 1, of_weights)) return FAILED;
    *output = *data;
    output->sizes[output->count - 1] = outputs;
    return DONE;
}

static Dense dense_of(const Call *call, int first) {
    const Shape *data = call->inputs + first;
    Dense dense = {1,
                   (size_t)data->sizes[data->count - 1],
                   size_of(call->attributes, "outputs"),
                   call->in[first],
                   call->in[first + 1],
                   call->in[first + 2]};
    for (int at = 0; at < data->count - 1; at++) dense.rows *= (size_t)data->sizes[at];
    return dense;
}

static void *scratch_of(const Call *call, const Dense *dense) {
    size_t bytes = dense_scratch(dense, call->num_threads);
    return bytes > INT_MAX ? NULL : call->allocate(call->allocator, (int)bytes);
}

static int forward(const Call *call) {
    Dense dense = dense_of(call, 0);
    void *scratch = scratch_of(call, &dense);
    if (!scratch) return FAILED;
    dense_forward(&dense, call->out[0], scratch, call->num_threads);
    return DONE;
}

static int backward(const Call *call) {
    Dense dense = dense_of(call, 1);
    void *scratch = scratch_of(call, &dense);
    if (!scratch) return FAILED;
    dense_backward(&dense, call->in[0], call->out[0], call->out[1], call->out[2], scratch, call->num_threads);
    return DONE;
}

const Operator dense_operator = {"mxtrain_dense", 3, 1, shape, forward, backward, 0, {0}};
