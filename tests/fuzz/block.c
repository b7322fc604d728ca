/* Random blocks of mobile nets in arrays as long as they have to be and no longer, compared with loops in float64; built with
   sanitizers, which end it where memory is misused. */

#include "mobile/block.h"
#include "convolutions/convolution.h"
#include "drawn.h"

static float *numbers(size_t count) { return drawn_numbers(count, 2000, 1000, -1); }

static double activated(Activation activation, double number) {
    if (activation == IDENTITY) return number;
    if (activation == HARD_SWISH) return number * fmin(1, fmax(0, number / 6 + 0.5));
    return activation == RELU ? fmax(0, number) : fmin(6, fmax(0, number));
}

/* A layer's weights, (outputs, inputs, kernel, kernel), and the norm behind it. */
typedef struct {
    ConvolutionWeights of;
    float *arrays[5], *folded;
} Layer;

static Layer drawn_layer(size_t outputs, size_t inputs, size_t kernel, int is_plain) {
    Layer layer = {.folded = numbers(num_panels(outputs) * panel_size(kernel * kernel, inputs))};
    layer.arrays[0] = numbers(outputs * inputs * kernel * kernel);
    for (size_t at = 1; at < 4; at++) layer.arrays[at] = numbers(outputs);
    layer.arrays[4] = drawn_numbers(outputs, 1000, 1000, 0.5f);
    float **from = layer.arrays;
    for (size_t at = 0; at < outputs * inputs * kernel * kernel; at++) from[0][at] /= sqrtf((float)(inputs * kernel * kernel));
    layer.of = (ConvolutionWeights){outputs, inputs, kernel, 0, is_plain, from[0], NULL, drawn(2) ? from[1] : NULL, from[2], from[3], from[4], 1e-3f};
    fold_convolution(&layer.of, layer.folded, 1);
    return layer;
}

static void end_layer(Layer *layer) {
    for (size_t at = 0; at < 5; at++) free(layer->arrays[at]);
    free(layer->folded);
}

static double normalized(const Layer *layer, size_t output, double sum) {
    const ConvolutionWeights *of = &layer->of;
    return (sum - of->mean[output]) / sqrt(of->variance[output] + of->epsilon) * (of->gamma ? of->gamma[output] : 1) + of->beta[output];
}

/* All outputs of a layer of 1 x 1 for `places` places. */
static double *pointwise_slowly(const Layer *layer, Activation activation, const double *in, size_t places) {
    size_t outputs = layer->of.outputs, inputs = layer->of.inputs;
    double *found = malloc(places * outputs * sizeof *found);
    for (size_t each = 0; each < places * outputs; each++) {
        double sum = 0;
        for (size_t input = 0; input < inputs; input++)
            sum += in[each / outputs * inputs + input] * layer->of.weights[each % outputs * inputs + input];
        found[each] = activated(activation, normalized(layer, each % outputs, sum));
    }
    return found;
}

static double *depthwise_slowly(const Block *block, const Layer *layer, const double *in) {
    size_t rows = out_side_of(block, block->height), columns = out_side_of(block, block->width), count = block->batch * rows * columns;
    double *found = malloc(count * block->wide * sizeof *found);
    for (size_t each = 0; each < count * block->wide; each++) {
        size_t channel = each % block->wide, place = each / block->wide, sample = place / columns / rows;
        double sum = 0;
        for (size_t tap = 0; tap < block->kernel * block->kernel; tap++) {
            size_t row = place / columns % rows * block->stride + tap / block->kernel - block->pad;
            size_t column = place % columns * block->stride + tap % block->kernel - block->pad;
            if (row >= block->height || column >= block->width) continue;
            sum += in[((sample * block->height + row) * block->width + column) * block->wide + channel] *
                   layer->of.weights[channel * block->kernel * block->kernel + tap];
        }
        found[each] = activated(block->convolved, normalized(layer, channel, sum));
    }
    return found;
}

static void multiply_by_gates_slowly(const Block *block, double *wide, size_t places) {
    const Gate *gate = block->gate;
    for (size_t sample = 0; sample < block->batch; sample++) {
        double *begin = wide + sample * places * block->wide;
        double *means = calloc(block->wide, sizeof *means), *hidden = malloc(gate->hidden * sizeof *hidden);
        for (size_t each = 0; each < places * block->wide; each++) means[each % block->wide] += begin[each] / (double)places;
        for (size_t at = 0; at < gate->hidden; at++) {
            hidden[at] = gate->first_bias[at];
            for (size_t channel = 0; channel < block->wide; channel++) hidden[at] += means[channel] * gate->first[at * block->wide + channel];
            hidden[at] = fmax(0, hidden[at]);
        }
        for (size_t channel = 0; channel < block->wide; channel++) {
            double number = gate->second_bias[channel];
            for (size_t at = 0; at < gate->hidden; at++) number += hidden[at] * gate->second[channel * gate->hidden + at];
            for (size_t place = 0; place < places; place++)
                begin[place * block->wide + channel] *= fmin(1, fmax(0, number * gate->slope + gate->offset));
        }
        free(means), free(hidden);
    }
}

/* What a convolution of pictures in plain order gives, with channels last. */
static double *first_slowly(const Convolution *layer, const Layer *weights) {
    size_t rows = out_side(layer, layer->height), columns = out_side(layer, layer->width), taps = layer->kernel * layer->kernel;
    size_t count = layer->batch * rows * columns * layer->outputs;
    double *found = malloc(count * sizeof *found);
    for (size_t at = 0; at < count; at++) {
        size_t output = at % layer->outputs, place = at / layer->outputs;
        double sum = 0;
        for (size_t tap = 0; tap < layer->inputs * taps; tap++) {
            size_t row = place / columns % rows * layer->stride + tap % taps / layer->kernel - layer->pad;
            size_t column = place % columns * layer->stride + tap % layer->kernel - layer->pad;
            if (row >= layer->height || column >= layer->width) continue;
            size_t plane = place / columns / rows * layer->inputs + tap / taps;
            sum += (double)layer->in[(plane * layer->height + row) * layer->width + column] * weights->of.weights[output * layer->inputs * taps + tap];
        }
        found[at] = activated(layer->activation, normalized(weights, output, sum));
    }
    return found;
}

static Convolution drawn_first(size_t most) {
    Convolution layer = {.batch = 1 + drawn(3), .height = 1 + drawn(most), .width = 1 + drawn(most), .inputs = 1 + drawn(4),
                         .outputs = 1 + drawn(40), .kernel = 1 + drawn(5), .stride = 1 + drawn(3), .activation = (Activation)drawn(4)};
    layer.pad = drawn(layer.kernel);
    return layer;
}

static int fits(const Convolution *layer) {
    return layer->kernel <= layer->height + 2 * layer->pad && layer->kernel <= layer->width + 2 * layer->pad;
}

/* Have a block take what a first convolution makes of pictures. */
static void put_behind(Block *block, const Convolution *first) {
    block->first = first, block->batch = first->batch, block->wide = block->inputs = first->outputs, block->expanded = first->activation;
    block->height = out_side(first, first->height), block->width = out_side(first, first->width);
}

static int try_block(int num_threads) {
    static const Activation ACTIVATIONS[] = {IDENTITY, RELU, RELU6, HARD_SWISH};
    int has_expansion = (int)drawn(2), has_gate = (int)drawn(2), is_large = !drawn(8);
    Block block = {.batch = 1 + drawn(is_large ? 2 : 5), .height = 1 + drawn(is_large ? 70 : 12), .width = 1 + drawn(is_large ? 70 : 12),
                   .inputs = 1 + drawn(40), .outputs = 1 + drawn(40), .kernel = 3 + 2 * drawn(2), .stride = 1 + drawn(2),
                   .expanded = ACTIVATIONS[drawn(4)], .convolved = ACTIVATIONS[drawn(4)], .projected = ACTIVATIONS[drawn(4)]};
    Convolution pictures = drawn_first(is_large ? 140 : 24);
    int has_first = !has_expansion && !has_gate && drawn(2);
    if (has_first && !fits(&pictures)) return 0;
    if (has_first) put_behind(&block, &pictures);
    block.wide = has_expansion ? 1 + drawn(is_large ? 120 : 60) : block.inputs, block.pad = drawn(block.kernel);
    if (block.kernel > block.height + 2 * block.pad || block.kernel > block.width + 2 * block.pad) return 0;
    if (block.stride == 1 && 2 * block.pad + 1 == block.kernel && !has_first && drawn(2)) block.is_residual = 1, block.outputs = block.inputs;
    size_t in_places = block.batch * block.height * block.width, places = out_side_of(&block, block.height) * out_side_of(&block, block.width);
    size_t hidden = 1 + drawn(20), count = block.batch * places * block.outputs;
    size_t in_count = has_first ? pictures.batch * pictures.inputs * pictures.height * pictures.width : in_places * block.inputs;
    float *in = numbers(in_count), *out = numbers(count), *of_gate[] = {
        numbers(hidden * block.wide), numbers(hidden), numbers(hidden * block.wide), numbers(block.wide)};
    Gate gate = {block.wide, hidden, of_gate[0], of_gate[1], of_gate[2], of_gate[3], 0.2f, 0.5f};
    Layer first = has_first ? drawn_layer(block.wide, pictures.inputs, pictures.kernel, 1) : drawn_layer(block.wide, block.inputs, 1, 0);
    Layer layers[] = {first, drawn_layer(block.wide, 1, block.kernel, 0),
                      drawn_layer(block.outputs, block.wide, 1, 0)};
    block.in = pictures.in = in, block.expansion = has_expansion || has_first ? layers[0].folded : NULL, block.depthwise = layers[1].folded;
    block.projection = layers[2].folded, block.gate = has_gate ? &gate : NULL;
    float *scratch = numbers(block_scratch(&block, num_threads));
    block_forward(&block, out, scratch, num_threads);

    double *exact = malloc(in_count * sizeof *exact), *expanded = exact;
    for (size_t at = 0; at < in_count; at++) exact[at] = in[at];
    if (has_first) expanded = first_slowly(&pictures, &layers[0]);
    if (has_expansion) expanded = pointwise_slowly(&layers[0], block.expanded, exact, in_places);
    double *wide = depthwise_slowly(&block, &layers[1], expanded);
    if (has_gate) multiply_by_gates_slowly(&block, wide, places);
    double *right = pointwise_slowly(&layers[2], block.is_residual ? IDENTITY : block.projected, wide, block.batch * places);
    for (size_t at = 0; at < count; at++) {
        double expected = block.is_residual ? activated(block.projected, right[at] + in[at]) : right[at];
        check_within(out[at], expected, 1e-4 * (10 + fabs(expected)), "another value of a block");
    }
    if (expanded != exact) free(expanded);
    for (size_t at = 0; at < 3; at++) end_layer(&layers[at]);
    for (size_t at = 0; at < 4; at++) free(of_gate[at]);
    free(in), free(out), free(scratch), free(exact), free(wide), free(right);
    return 1;
}

/* A first convolution by itself. */
static int try_first(int num_threads) {
    Convolution layer = drawn_first(20);
    if (!fits(&layer)) return 0;
    size_t count = layer.batch * out_side(&layer, layer.height) * out_side(&layer, layer.width) * layer.outputs;
    Layer weights = drawn_layer(layer.outputs, layer.inputs, layer.kernel, 1);
    float *in = numbers(layer.batch * layer.inputs * layer.height * layer.width), *out = numbers(count);
    layer.in = in, layer.weights = weights.folded;
    void *scratch = malloc(plain_scratch(&layer, num_threads));
    plain_forward(&layer, out, scratch, num_threads);
    double *right = first_slowly(&layer, &weights);
    for (size_t at = 0; at < count; at++)
        check_within(out[at], right[at], 1e-4 * (10 + fabs(right[at])), "another value of a first convolution");
    end_layer(&weights), free(in), free(out), free(scratch), free(right);
    return 1;
}

static int try_round(long round) {
    int num_threads = 1 + (int)drawn(3);
    return round % 4 ? try_block(num_threads) : try_first(num_threads);
}

int main(int count, char **arguments) { return run_rounds(count, arguments, try_round); }
