/* Convolutions with channels last, and what makes their weights: of a convolution's alone, with its bias, or with a norm by
   running statistics. A convolution takes data, those weights, and what is added where something is, and (batch, channels)
   as one place of each sample; a first one takes pictures in plain order. */

#include "convolutions/convolution.h"
#include "operator.h"

static int weights_shape(Attributes attributes, FoundShape *inputs, FoundShape *outputs, int count) {
    int64_t rows = whole_number(attributes, "outputs"), depth = whole_number(attributes, "inputs");
    int64_t kernel = whole_number(attributes, "kernel"), weights[] = {rows, depth, kernel, kernel};
    int has_tile = whole_number(attributes, "tile") > 0;
    if (rows < 1 || depth < 1 || kernel < 1 || (has_tile && (rows % PANEL || depth % PANEL))) return FAILED;
    for (int at = 0; at < count; at++)
        if (!has_sizes(&inputs[at], at ? 1 : 4, weights)) return FAILED;
    size_t size = panel_size(taps_of((size_t)kernel, size_of(attributes, "tile")), (size_t)depth);
    outputs[0] = (FoundShape){{(int64_t)num_panels((size_t)rows), (int64_t)size}, 2};
    return DONE;
}

static int fold(const Call *call, int has_bias, int has_norm) {
    ConvolutionWeights from = {.outputs = (size_t)call->inputs[0].sizes[0],
                               .inputs = (size_t)call->inputs[0].sizes[1],
                               .kernel = (size_t)call->inputs[0].sizes[2],
                               .tile = size_of(call->attributes, "tile"),
                               .is_plain = (int)whole_number(call->attributes, "is_plain"),
                               .weights = call->in[0],
                               .bias = has_bias ? call->in[1] : NULL};
    if (has_norm) {
        void **norm = call->in + 1 + has_bias;
        from.gamma = whole_number(call->attributes, "is_fixed") ? NULL : norm[0];
        from.beta = norm[1], from.mean = norm[2], from.variance = norm[3];
        from.epsilon = number(call->attributes, "epsilon", 1e-3f);
    }
    fold_convolution(&from, call->out[0], call->num_threads);
    return DONE;
}

static Convolution layer_of(Attributes attributes, const int64_t *data, int count, int is_plain) {
    int is_flat = count == 2;
    return (Convolution){.batch = (size_t)data[0],
                         .height = is_flat ? 1 : (size_t)data[1 + is_plain],
                         .width = is_flat ? 1 : (size_t)data[2 + is_plain],
                         .inputs = (size_t)data[is_flat || is_plain ? 1 : 3],
                         .outputs = size_of(attributes, "outputs"),
                         .kernel = size_of(attributes, "kernel"),
                         .stride = size_of(attributes, "stride"),
                         .pad = size_of(attributes, "pad"),
                         .tile = size_of(attributes, "tile"),
                         .activation = activation_of(text(attributes, "activation"))};
}

static int shape(Attributes attributes, FoundShape *inputs, FoundShape *outputs, int has_added, int is_plain) {
    const int64_t *data = inputs[0].sizes;
    int count = inputs[0].count, is_flat = count == 2;
    if (count != 4 && (is_plain || !is_flat)) return FAILED;
    for (int at = 0; at < count; at++)
        if (data[at] < 1) return FAILED;
    Convolution layer = layer_of(attributes, data, count, is_plain);
    if (!layer.outputs || !layer.kernel || !layer.stride) return FAILED;
    if (layer.tile && (layer.outputs % PANEL || layer.inputs % PANEL)) return FAILED;
    if (layer.kernel > layer.height + 2 * layer.pad || layer.kernel > layer.width + 2 * layer.pad) return FAILED;
    if (layer.tile && (layer.kernel != 3 || layer.stride != 1 || layer.pad != 1)) return FAILED;
    int64_t rows = (int64_t)out_side(&layer, layer.height), columns = (int64_t)out_side(&layer, layer.width);
    int64_t weights[] = {(int64_t)num_panels(layer.outputs), (int64_t)panel_size(taps_of(layer.kernel, layer.tile), layer.inputs)};
    outputs[0] = (FoundShape){{data[0], rows, columns, (int64_t)layer.outputs}, 4};
    if (is_flat && rows * columns != 1) return FAILED;
    if (is_flat) outputs[0] = (FoundShape){{data[0], (int64_t)layer.outputs}, 2};
    if (has_added && !has_sizes(&inputs[2], count, outputs[0].sizes)) return FAILED;
    return has_sizes(&inputs[1], 2, weights) ? DONE : FAILED;
}

/* How a layer is computed, and the scratch memory of that. */
typedef struct {
    size_t (*scratch)(const Convolution *layer, int num_threads);
    void (*compute)(const Convolution *layer, float *out, void *scratch, int num_threads);
} Way;

static int forward(const Call *call, int has_added, int is_plain) {
    static const Way plain = {plain_scratch, plain_forward}, winograd = {winograd_scratch, winograd_forward};
    static const Way direct = {direct_scratch, direct_forward};
    Convolution layer = layer_of(call->attributes, call->inputs[0].sizes, call->inputs[0].count, is_plain);
    layer.in = call->in[0], layer.weights = call->in[1], layer.added = has_added ? call->in[2] : NULL;
    const Way *way = is_plain ? &plain : layer.tile ? &winograd : &direct;
    int pieces;
    void *scratch = scratch_memory(call, way->scratch(&layer, call->num_threads), 1, &pieces);
    if (!scratch) return FAILED;
    way->compute(&layer, call->out[0], scratch, call->num_threads);
    return DONE;
}

#define WEIGHTS(name, called, has_bias, has_norm)                                                                     \
    static int name##_shape(Attributes attributes, FoundShape *inputs, FoundShape *outputs) {                         \
        return weights_shape(attributes, inputs, outputs, 1 + has_bias + 4 * has_norm);                               \
    }                                                                                                                 \
    static int name##_compute(const Call *call) { return fold(call, has_bias, has_norm); }                            \
    const Operator name##_operator = {called, 1 + has_bias + 4 * has_norm, 1, name##_shape, name##_compute, no_backward, 0, {0}};

WEIGHTS(convolution_weights, "mxtrain_convolution_weights", 0, 0)
WEIGHTS(biased_weights, "mxtrain_biased_convolution_weights", 1, 0)
WEIGHTS(normed_weights, "mxtrain_normed_convolution_weights", 0, 1)
WEIGHTS(biased_normed_weights, "mxtrain_biased_normed_convolution_weights", 1, 1)

#define CONVOLUTION(name, called, has_added, is_plain)                                                                \
    static int name##_shape(Attributes attributes, FoundShape *inputs, FoundShape *outputs) {                         \
        return shape(attributes, inputs, outputs, has_added, is_plain);                                               \
    }                                                                                                                 \
    static int name##_compute(const Call *call) { return forward(call, has_added, is_plain); }                        \
    const Operator name##_operator = {called, 2 + has_added, 1, name##_shape, name##_compute, no_backward, 0, {0}};

CONVOLUTION(convolution, "mxtrain_convolution", 0, 0)
CONVOLUTION(convolution_sum, "mxtrain_convolution_sum", 1, 0)
CONVOLUTION(first_convolution, "mxtrain_first_convolution", 0, 1)
