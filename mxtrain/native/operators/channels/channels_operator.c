/* A BatchNorm with its activation, a depthwise convolution with those behind it, or with those on both sides, as
   operators. Inputs are those of the operators they stand for, in their order: the data, of a norm gamma, beta, and its
   running mean and variance, and the weights. Outputs are the data and the statistics of the batch. */

#include "channels/channels_operator.h"

/* Where among its inputs a kind of run has its norms and weights; 0 where it has none. */
typedef struct {
    int before, weights, behind;
} Places;

static const Places NORM = {0, 0, 1}, DEPTHWISE = {0, 1, 2}, BOTH = {1, 5, 6};

const char *const KEYS_BEHIND[4] = {"epsilon", "momentum", "activation", "is_fixed"};

Geometry geometry_of(Attributes attributes, const int64_t *sizes) {
    return (Geometry){.kernel = size_of(attributes, "kernel"),
                      .stride = size_of(attributes, "stride"),
                      .pad = size_of(attributes, "pad"),
                      .height = (size_t)sizes[2],
                      .width = (size_t)sizes[3],
                      .out_height = (size_t)sizes[2],
                      .out_width = (size_t)sizes[3]};
}

static int shape(Attributes attributes, FoundShape *inputs, FoundShape *outputs, Places places, int num_inputs) {
    const int64_t *data = inputs[0].sizes;
    if (inputs[0].count != 4 || data[0] < 1 || data[1] < 1 || data[2] < 1 || data[3] < 1) return FAILED;
    Geometry g = geometry_of(attributes, data);
    if (places.weights && !lay_out(&g)) return FAILED;
    int64_t weights[] = {data[1], 1, (int64_t)g.kernel, (int64_t)g.kernel};
    for (int at = 1; at < num_inputs; at++)
        if (!has_sizes(&inputs[at], at == places.weights ? 4 : 1, weights)) return FAILED;
    outputs[0] = (FoundShape){{data[0], data[1], (int64_t)g.out_height, (int64_t)g.out_width}, 4};
    outputs[1] = (FoundShape){{STATISTICS, data[1]}, 2};
    return DONE;
}

Norm norm_of(const Call *call, int gamma, const char *const keys[4]) {
    return (Norm){call->in[gamma],
                  call->in[gamma + 1],
                  call->in[gamma + 2],
                  call->in[gamma + 3],
                  number(call->attributes, keys[0], 1e-3f),
                  number(call->attributes, keys[1], 0.9f),
                  activation_of(text(call->attributes, keys[2])),
                  !whole_number(call->attributes, keys[3])};
}

/* The run of a call whose inputs begin at `first`; `norms` are where its norms are put. */
static Run run_of(const Call *call, int first, Places places, Norm norms[2]) {
    static const char *const before[] = {"epsilon_before", "momentum_before", "activation_before", "is_fixed_before"};
    const Shape *data = &call->inputs[first];
    Run run = {.batch = (size_t)data->sizes[0], .channels = (size_t)data->sizes[1], .in = call->in[first], .behind = &norms[1],
               .is_judging = (int)whole_number(call->attributes, "is_judging")};
    run.geometry = geometry_of(call->attributes, data->sizes);
    if (places.weights) lay_out(&run.geometry);
    norms[1] = norm_of(call, first + places.behind, KEYS_BEHIND);
    if (places.weights) run.weights = call->in[first + places.weights];
    if (!places.before) return run;
    norms[0] = norm_of(call, first + places.before, before);
    run.before = &norms[0];
    return run;
}

static int forward(const Call *call, Places places) {
    Norm norms[2];
    Run run = run_of(call, 0, places, norms);
    int threads;
    float *scratch = scratch_memory(call, run_scratch(&run) * sizeof(float), run.channels, &threads);
    if (!scratch) return FAILED;
    run_forward(&run, call->out[0], call->out[1], scratch, threads);
    return DONE;
}

static int backward(const Call *call, Places places, int num_inputs) {
    Norm norms[2];
    Run run = run_of(call, 2, places, norms);
    if (run.is_judging) return FAILED;
    int threads;
    float *scratch = scratch_memory(call, run_scratch(&run) * sizeof(float), run.channels, &threads);
    if (!scratch) return FAILED;
    float **out = (float **)call->out;
    RunGradients gradients = {out[0], NULL, NULL, NULL, out[places.behind], out[places.behind + 1]};
    if (run.weights) gradients.weights = out[places.weights];
    if (run.before) gradients.gamma_before = out[places.before], gradients.beta_before = out[places.before + 1];
    run_backward(&run, call->in[0], call->in[2 + num_inputs + 1], &gradients, scratch, threads);
    return DONE;
}

#define OPERATOR(name, called, places, num_inputs, ...)                                                               \
    static int name##_shape(Attributes attributes, FoundShape *inputs, FoundShape *outputs) {                         \
        return shape(attributes, inputs, outputs, places, num_inputs);                                                \
    }                                                                                                                 \
    static int name##_forward(const Call *call) { return forward(call, places); }                                     \
    static int name##_backward(const Call *call) { return backward(call, places, num_inputs); }                       \
    const Operator name##_operator = {called, num_inputs, 2, name##_shape, name##_forward, name##_backward, __VA_ARGS__};

OPERATOR(norm, "mxtrain_norm", NORM, 5, 2, {3, 4})
OPERATOR(depthwise_norm, "mxtrain_depthwise_norm", DEPTHWISE, 6, 2, {4, 5})
OPERATOR(norm_depthwise_norm, "mxtrain_norm_depthwise_norm", BOTH, 10, 4, {3, 4, 8, 9})
