/* A reduction as an operator: of data, along its `axis`, of which one place stays where `keepdims` is 1; its `kind` is
   sum, mean or max. */

#include <string.h>

#include "operator.h"
#include "reduction.h"

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

const Operator reduction_operator = {"mxtrain_reduction", 1, 1, shape, forward, backward, 0, {0}};
