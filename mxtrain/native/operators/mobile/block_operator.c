/* Blocks of mobile nets: of data with channels last, weights of an expansion where it has one, of the depthwise convolution
   and of the last one, as the operators make them that make convolutions' weights, and weights and biases of a gate. A net's
   first block takes pictures in plain order, and weights of the convolution of these in the place of an expansion's. */

#include "mobile/block.h"
#include "convolutions/convolution.h"
#include "mobile/depthwise.h"
#include "operator.h"
#include "sizes.h"

/* What a kind of block has besides its depthwise convolution and the last one. */
typedef struct {
    int expansion, first, gate;
} Parts;

static Convolution first_of(Attributes attributes, const int64_t *data) {
    return (Convolution){.batch = (size_t)data[0],
                         .inputs = (size_t)data[1],
                         .height = (size_t)data[2],
                         .width = (size_t)data[3],
                         .outputs = size_of(attributes, "wide"),
                         .kernel = size_of(attributes, "first_kernel"),
                         .stride = size_of(attributes, "first_stride"),
                         .pad = size_of(attributes, "first_pad")};
}

static int is_right(const Convolution *first) {
    size_t side = least(first->height, first->width);
    return first->kernel && first->stride && first->pad < first->kernel && first->kernel <= side + 2 * first->pad;
}

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

/* Have a block take what a convolution of pictures makes of them. */
static void put_behind(Block *block, const Convolution *first) {
    block->first = first, block->inputs = block->wide;
    block->height = out_side(first, first->height), block->width = out_side(first, first->width);
}

static int shape(Attributes attributes, FoundShape *inputs, FoundShape *outputs, Parts parts) {
    const int64_t *data = inputs[0].sizes;
    if (inputs[0].count != 4 || data[0] < 1 || data[1] < 1 || data[2] < 1 || data[3] < 1) return FAILED;
    Block block = block_of(attributes, data);
    Convolution first = first_of(attributes, data);
    if (parts.first && !is_right(&first)) return FAILED;
    if (parts.first) put_behind(&block, &first);
    if (!block.wide || !block.outputs || !convolves_rows(block.kernel, block.stride) || block.pad >= block.kernel) return FAILED;
    if (block.kernel > block.height + 2 * block.pad || block.kernel > block.width + 2 * block.pad) return FAILED;
    if (!parts.expansion && block.wide != block.inputs) return FAILED;
    int64_t rows = (int64_t)out_side_of(&block, block.height), columns = (int64_t)out_side_of(&block, block.width);
    int is_same = block.inputs == block.outputs && rows == data[1] && columns == data[2];
    if (block.is_residual && (parts.first || !is_same)) return FAILED;
    outputs[0] = (FoundShape){{data[0], rows, columns, (int64_t)block.outputs}, 4};
    FoundShape *weights = inputs + 1;
    if (parts.first && !has_weights(weights++, block.wide, first.kernel * first.kernel, first.inputs)) return FAILED;
    if (parts.expansion && !has_weights(weights++, block.wide, 1, block.inputs)) return FAILED;
    if (!has_weights(weights++, block.wide, block.kernel * block.kernel, 1)) return FAILED;
    if (!has_weights(weights++, block.outputs, 1, block.wide)) return FAILED;
    return !parts.gate || has_gate_weights(weights, (int64_t)block.wide, whole_number(attributes, "hidden"));
}

static int forward(const Call *call, Parts parts) {
    Block block = block_of(call->attributes, call->inputs[0].sizes);
    Convolution first = first_of(call->attributes, call->inputs[0].sizes);
    if (parts.first) put_behind(&block, &first);
    void **weights = call->in + 1;
    block.in = first.in = call->in[0], block.expansion = parts.expansion || parts.first ? *weights++ : NULL;
    block.depthwise = *weights++, block.projection = *weights++;
    Gate gate = {.channels = block.wide,
                 .hidden = size_of(call->attributes, "hidden"),
                 .slope = number(call->attributes, "slope", 1 / 6.0f),
                 .offset = number(call->attributes, "offset", 0.5f)};
    if (parts.gate) {
        gate.first = weights[0], gate.first_bias = weights[1], gate.second = weights[2], gate.second_bias = weights[3];
        block.gate = &gate;
    }
    int pieces;
    float *scratch = scratch_memory(call, block_scratch(&block, call->num_threads) * sizeof(float), 1, &pieces);
    if (!scratch) return FAILED;
    block_forward(&block, call->out[0], scratch, call->num_threads);
    return DONE;
}

#define BLOCK(name, called, num_inputs, ...)                                                                          \
    static int name##_shape(Attributes attributes, FoundShape *inputs, FoundShape *outputs) {                         \
        return shape(attributes, inputs, outputs, (Parts){__VA_ARGS__});                                              \
    }                                                                                                                 \
    static int name##_compute(const Call *call) { return forward(call, (Parts){__VA_ARGS__}); }                       \
    const Operator name##_operator = {called, num_inputs, 1, name##_shape, name##_compute, no_backward, 0, {0}};

BLOCK(separable, "mxtrain_separable", 3, .expansion = 0)
BLOCK(gated_separable, "mxtrain_gated_separable", 7, .gate = 1)
BLOCK(inverted, "mxtrain_inverted", 4, .expansion = 1)
BLOCK(gated_inverted, "mxtrain_gated_inverted", 8, .expansion = 1, .gate = 1)
BLOCK(first_separable, "mxtrain_first_separable", 4, .first = 1)
