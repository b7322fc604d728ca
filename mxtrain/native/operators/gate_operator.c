/* A gate of squeeze and excitation: of data, and weights and biases of two dense layers, or convolutions of 1 x 1. */

#include "gate.h"
#include "operator.h"

static int shape(Attributes attributes, FoundShape *inputs, FoundShape *outputs) {
    const int64_t *data = inputs[0].sizes;
    int64_t hidden = whole_number(attributes, "hidden");
    if (inputs[0].count != 4 || data[0] < 1 || data[1] < 1 || data[2] < 1 || data[3] < 1 || hidden < 1) return FAILED;
    int64_t first[] = {hidden, data[1], 1, 1}, second[] = {data[1], hidden, 1, 1};
    outputs[0] = (FoundShape){{data[0], data[1], 1, 1}, 4};
    return has_sizes(&inputs[1], 4, first) && has_sizes(&inputs[2], 1, first) && has_sizes(&inputs[3], 4, second) &&
           has_sizes(&inputs[4], 1, second);
}

static int forward(const Call *call) {
    const int64_t *data = call->inputs[0].sizes;
    Gate gate = {.batch = (size_t)data[0],
                 .channels = (size_t)data[1],
                 .plane = (size_t)(data[2] * data[3]),
                 .hidden = (size_t)call->inputs[1].sizes[0],
                 .in = call->in[0],
                 .first = call->in[1],
                 .first_bias = call->in[2],
                 .second = call->in[3],
                 .second_bias = call->in[4],
                 .slope = number(call->attributes, "slope", 1 / 6.0f),
                 .offset = number(call->attributes, "offset", 0.5f)};
    int threads;
    float *scratch = scratch_memory(call, gate_scratch(&gate) * sizeof(float), 1, &threads);
    if (!scratch) return FAILED;
    gate_forward(&gate, call->out[0], scratch, call->num_threads);
    return DONE;
}

const Operator gate_operator = {"mxtrain_gate", 5, 1, shape, forward, no_backward, 0, {0}};
