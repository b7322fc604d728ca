/* LayerNorm as an operator: of data (..., width), gamma (width) and beta (width). */

#include <limits.h>

#include "tokens/layer_norm.h"
#include "operator.h"

static int shape(Attributes attributes, FoundShape *inputs, FoundShape *output) {
    (void)attributes;
    const FoundShape *data = inputs;
    if (!data->count) return FAILED;
    const int64_t *width = data->sizes + data->count - 1;
    if (!has_sizes(&inputs[1], 1, width) || !has_sizes(&inputs[2], 1, width)) return FAILED;
    output->count = data->count;
    for (int at = 0; at < data->count; at++) output->sizes[at] = data->sizes[at];
    return DONE;
}

static LayerNorm norm_of(const Call *call, int first) {
    const Shape *data = call->inputs + first;
    LayerNorm norm = {1, (size_t)data->sizes[data->count - 1], call->in[first], call->in[first + 1], call->in[first + 2],
                      number(call->attributes, "eps", 1e-5f)};
    for (int at = 0; at < data->count - 1; at++) norm.rows *= (size_t)data->sizes[at];
    return norm;
}

static int forward(const Call *call) {
    LayerNorm norm = norm_of(call, 0);
    layer_norm(&norm, call->out[0], call->num_threads);
    return DONE;
}

static int backward(const Call *call) {
    LayerNorm norm = norm_of(call, 1);
    size_t bytes = layer_norm_scratch(&norm) * sizeof(float);
    float *scratch = bytes > INT_MAX ? NULL : call->allocate(call->allocator, (int)bytes);
    if (!scratch) return FAILED;
    layer_norm_backward(&norm, call->in[0], call->out[0], call->out[1], call->out[2], scratch, call->num_threads);
    return DONE;
}

const Operator layer_norm_operator = {"mxtrain_layer_norm", 3, 1, shape, forward, backward, 0, {0}};
