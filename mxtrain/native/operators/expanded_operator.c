/* A convolution of 1 x 1 and a depthwise one with their norms and activations: of data, the first one's weights as
   `mxtrain_folded_norm` makes them, the second one's, and gamma, beta and running statistics of the norm behind it. */

#include "channels_operator.h"
#include "expanded.h"

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
    Norm behind = norm_of(call, 3, KEYS_BEHIND);
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
