/* Blocks of mobile nets: of data with channels last, weights of an expansion where it has one, of the depthwise convolution
   and of the last one, as the operators make them that make convolutions' weights, and weights and biases of a gate. */

#include "mobile/block.h"
#include "convolutions/convolution.h"
#include "mobile/depthwise.h"
#include "operator.h"

static Block block_of(Attributes attributes, const int64_t *data) {
    return (Block){.batch = (size_t)data[0],
                   .height = (size_t)data[1],
                   .width = (size_t)data[2],
                   .inputs = (size_t)data[3],
                   .wide = size_of(attributes, "wide"),
                   .outputs = size_of(attributes, "outputs"),
                   .kernel = size_of(attributes, "kernel"),
                   .stride = size_of(attributes, "stride"),
                   .pad = size_of(attributes, "pad"),
                   .expanded = activation_of(text(attributes, "expanded")),
                   .convolved = activation_of(text(attributes, "convolved")),
                   .projected = activation_of(text(attributes, "activation")),
                   .is_residual = (int)whole_number(attributes, "is_residual")};
}

static int has_weights(FoundShape *input, size_t outputs, size_t taps, size_t inputs) {
    int64_t sizes[] = {(int64_t)num_panels(outputs), (int64_t)panel_size(taps, inputs)};
    return has_sizes(input, 2, sizes);
}

static int has_gate_weights(FoundShape *inputs, int64_t wide, int64_t hidden) {
    int64_t first[] = {hidden, wide, 1, 1}, second[] = {wide, hidden, 1, 1};
    return hidden > 0 && has_sizes(&inputs[0], 4, first) && has_sizes(&inputs[1], 1, first) && has_sizes(&inputs[2], 4, second) &&
           has_sizes(&inputs[3], 1, second);
}

static int shape(Attributes attributes, FoundShape *inputs, FoundShape *outputs, int has_expansion, int has_gate) {
    const int64_t *data = inputs[0].sizes;
    if (inputs[0].count != 4 || data[0] < 1 || data[1] < 1 || data[2] < 1 || data[3] < 1) return FAILED;
    Block block = block_of(attributes, data);
    if (!block.wide || !block.outputs || !convolves_rows(block.kernel, block.stride) || block.pad >= block.kernel) return FAILED;
    if (block.kernel > block.height + 2 * block.pad || block.kernel > block.width + 2 * block.pad) return FAILED;
    if (!has_expansion && block.wide != block.inputs) return FAILED;
    int64_t rows = (int64_t)out_side_of(&block, block.height), columns = (int64_t)out_side_of(&block, block.width);
    if (block.is_residual && (block.inputs != block.outputs || rows != data[1] || columns != data[2])) return FAILED;
    outputs[0] = (FoundShape){{data[0], rows, columns, (int64_t)block.outputs}, 4};
    if (has_expansion && !has_weights(&inputs[1], block.wide, 1, block.inputs)) return FAILED;
    if (!has_weights(&inputs[1 + has_expansion], block.wide, block.kernel * block.kernel, 1)) return FAILED;
    if (!has_weights(&inputs[2 + has_expansion], block.outputs, 1, block.wide)) return FAILED;
    return !has_gate || has_gate_weights(&inputs[3 + has_expansion], (int64_t)block.wide, whole_number(attributes, "hidden"));
}

static int forward(const Call *call, int has_expansion, int has_gate) {
    Block block = block_of(call->attributes, call->inputs[0].sizes);
    block.in = call->in[0], block.expansion = has_expansion ? call->in[1] : NULL;
    block.depthwise = call->in[1 + has_expansion], block.projection = call->in[2 + has_expansion];
    void **last = call->in + 3 + has_expansion;
    Gate gate = {.channels = block.wide,
                 .hidden = size_of(call->attributes, "hidden"),
                 .slope = number(call->attributes, "slope", 1 / 6.0f),
                 .offset = number(call->attributes, "offset", 0.5f)};
    if (has_gate) {
        gate.first = last[0], gate.first_bias = last[1], gate.second = last[2], gate.second_bias = last[3];
        block.gate = &gate;
    }
    int pieces;
    float *scratch = scratch_memory(call, block_scratch(&block, call->num_threads) * sizeof(float), 1, &pieces);
    if (!scratch) return FAILED;
    block_forward(&block, call->out[0], scratch, call->num_threads);
    return DONE;
}

#define BLOCK(name, called, has_expansion, has_gate)                                                                  \
    static int name##_shape(Attributes attributes, FoundShape *inputs, FoundShape *outputs) {                         \
        return shape(attributes, inputs, outputs, has_expansion, has_gate);                                           \
    }                                                                                                                 \
    static int name##_compute(const Call *call) { return forward(call, has_expansion, has_gate); }                    \
    const Operator name##_operator = {called, 3 + has_expansion + 4 * has_gate, 1, name##_shape, name##_compute, no_backward, 0, {0}};

BLOCK(separable, "mxtrain_separable", 0, 0)
BLOCK(gated_separable, "mxtrain_gated_separable", 0, 1)
BLOCK(inverted, "mxtrain_inverted", 1, 0)
BLOCK(gated_inverted, "mxtrain_gated_inverted", 1, 1)
