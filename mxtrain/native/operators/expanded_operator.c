/* A convolution of 1 x 1 and a depthwise one with their norms and activations: of data, the first one's weights as
   `mxtrain_folded_norm` makes them, the second one's, and gamma, beta and running statistics of the norm behind it. */

#include "expanded.h"
#include "operator.h"

static Geometry geometry_of(Attributes attributes, const int64_t *data) {
    return (Geometry){.kernel = (size_t)whole_number(attributes, "kernel"),
                      .stride = (size_t)whole_number(attributes, "stride"),
                      .pad = (size_t)whole_number(attributes, "pad"),
                      .height = (size_t)data[2],
                      .width = (size_t)data[3]};
}

static int shape(Attributes attributes, FoundShape *inputs, FoundShape *outputs) {
    const int64_t *data = inputs[0].sizes;
    int64_t channels = whole_number(attributes, "outputs");
    if (inputs[0].count != 4 || data[0] < 1 || data[1] < 1 || data[2] < 1 || data[3] < 1 || channels < 1) return FAILED;
    Geometry g = geometry_of(attributes, data);
    int64_t folded[] = {(int64_t)folded_size((size_t)channels, (size_t)data[1])};
    if (!lay_out(&g) || !has_sizes(&inputs[1], 1, folded)) return FAILED;
    int64_t weights[] = {channels, 1, (int64_t)g.kernel, (int64_t)g.kernel};
    for (int at = 2; at < 7; at++)
        if (!has_sizes(&inputs[at], at == 2 ? 4 : 1, weights)) return FAILED;
    outputs[0] = (FoundShape){{data[0], channels, (int64_t)g.out_height, (int64_t)g.out_width}, 4};
    outputs[1] = (FoundShape){{data[0], channels, 1, 1}, 4};
    return DONE;
}

static int forward(const Call *call) {
    const int64_t *data = call->inputs[0].sizes;
    Norm behind = {.gamma = call->in[3],
                   .beta = call->in[4],
                   .running_mean = call->in[5],
                   .running_variance = call->in[6],
                   .epsilon = number(call->attributes, "epsilon", 1e-3f),
                   .activation = activation_of(text(call->attributes, "activation")),
                   .has_gamma = !whole_number(call->attributes, "is_fixed")};
    Expanded layer = {.expansion = {.batch = (size_t)data[0],
                                    .inputs = (size_t)data[1],
                                    .plane = (size_t)(data[2] * data[3]),
                                    .outputs = (size_t)call->outputs[0].sizes[1],
                                    .in = call->in[0],
                                    .weights = call->in[1],
                                    .activation = activation_of(text(call->attributes, "activation_before"))},
                      .geometry = geometry_of(call->attributes, data),
                      .weights = call->in[2],
                      .behind = &behind};
    lay_out(&layer.geometry);
    int threads;
    float *scratch = scratch_memory(call, expanded_scratch(&layer) * sizeof(float), (size_t)call->num_threads, &threads);
    if (!scratch) return FAILED;
    expanded_forward(&layer, call->out[0], call->out[1], scratch, threads);
    return DONE;
}

const Operator expanded_operator = {"mxtrain_expanded", 7, 2, shape, forward, no_backward, 0, {0}};
