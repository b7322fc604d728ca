/* A reduction as an operator: of data, along its `axis`, of which one place stays where `keepdims` is 1; its `kind` is
   sum, mean or max. */

#include <string.h>

#include "operator.h"
#include "tokens/reduction.h"

static int shape(Attributes attributes, FoundShape *inputs, FoundShape *output) {
    long axis = whole_number(attributes, "axis"), keeps = whole_number(attributes, "keepdims");
    if (axis < 0 || axis >= inputs->count || !inputs->sizes[axis]) return FAILED;
    output->count = 0;
    for (int at = 0; at < inputs->count; at++)
        if (at != axis || keeps) output->sizes[output->count++] = at == axis ? 1 : inputs->sizes[at];
    return DONE;
}

static Reduction reduction_of(const Call *call, int first) {
    const Shape *data = call->inputs + first;
    long axis = whole_number(call->attributes, "axis");
    const char *name = text(call->attributes, "kind");
    Kind kind = !strcmp(name, "max") ? LARGEST : !strcmp(name, "mean") ? MEAN : SUM;
    Reduction reduction = {kind, 1, (size_t)data->sizes[axis], 1, call->in[first]};
    for (int at = 0; at < axis; at++) reduction.before *= (size_t)data->sizes[at];
    for (int at = (int)axis + 1; at < data->count; at++) reduction.after *= (size_t)data->sizes[at];
    return reduction;
}

static int forward(const Call *call) {
    Reduction reduction = reduction_of(call, 0);
    reduce(&reduction, call->out[0], call->num_threads);
    return DONE;
}

static int backward(const Call *call) {
    Reduction reduction = reduction_of(call, 1);
    reduce_backward(&reduction, call->in[2], call->in[0], call->out[0], call->num_threads);
    return DONE;
}

/* The means of each channel's places of data with channels last, as pooling gives them, (batch, channels, 1, 1), or flat. */
static int means_shape(Attributes attributes, FoundShape *inputs, FoundShape *output) {
    const int64_t *data = inputs->sizes;
    if (inputs->count != 4 || data[0] < 1 || data[1] < 1 || data[2] < 1 || data[3] < 1) return FAILED;
    *output = (FoundShape){{data[0], data[3], 1, 1}, whole_number(attributes, "is_flat") ? 2 : 4};
    return DONE;
}

static int means_forward(const Call *call) {
    const int64_t *data = call->inputs->sizes;
    Reduction reduction = {MEAN, (size_t)data[0], (size_t)(data[1] * data[2]), (size_t)data[3], call->in[0]};
    reduce(&reduction, call->out[0], call->num_threads);
    return DONE;
}

const Operator channel_means_operator = {"mxtrain_channel_means", 1, 1, means_shape, means_forward, no_backward, 0, {0}};
const Operator reduction_operator = {"mxtrain_reduction", 1, 1, shape, forward, backward, 0, {0}};
