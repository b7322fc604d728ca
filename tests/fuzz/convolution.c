/* Random convolutions with channels last in arrays as long as they have to be and no longer, by Winograd's algorithm and
   without it, compared with loops in float64; built with sanitizers, which end it where memory is misused. */

#include "convolutions/convolution.h"
#include "drawn.h"

static float *numbers(size_t count) { return drawn_numbers(count, 2000, 1000, -1); }

static size_t least_side(const Convolution *layer) { return layer->height < layer->width ? layer->height : layer->width; }

static double convolved_slowly(const Convolution *layer, const ConvolutionWeights *of, size_t place, size_t output) {
    size_t rows = out_side(layer, layer->height), columns = out_side(layer, layer->width), kernel = layer->kernel;
    size_t sample = place / columns / rows, top = place / columns % rows * layer->stride, left = place % columns * layer->stride;
    double sum = of->bias ? of->bias[output] : 0;
    for (size_t at = 0; at < kernel * kernel; at++) {
        size_t row = top + at / kernel - layer->pad, column = left + at % kernel - layer->pad;
        if (row >= layer->height || column >= layer->width) continue;
        const float *in = layer->in + ((sample * layer->height + row) * layer->width + column) * layer->inputs;
        for (size_t input = 0; input < layer->inputs; input++)
            sum += (double)in[input] * of->weights[(output * layer->inputs + input) * kernel * kernel + at];
    }
    if (of->variance)
        sum = (sum - of->mean[output]) / sqrt(of->variance[output] + of->epsilon) * (of->gamma ? of->gamma[output] : 1) + of->beta[output];
    if (layer->added) sum += layer->added[place * layer->outputs + output];
    return layer->activation == RELU ? fmax(0, sum) : sum;
}

static int try_round(long round) {
    const size_t tiles[] = {0, 2, 4};
    int num_threads = 1 + (int)drawn(3);
    Convolution layer = {.batch = 1 + drawn(3), .height = 1 + drawn(drawn(3) ? 9 : 30), .width = 1 + drawn(drawn(3) ? 9 : 30),
                         .inputs = PANEL * (1 + drawn(drawn(5) ? 3 : 20)), .outputs = PANEL * (1 + drawn(drawn(5) ? 3 : 20)), .kernel = 3,
                         .stride = 1, .pad = 1, .tile = tiles[round % 3], .activation = (Activation)drawn(2)};
    if (!layer.tile) layer.kernel = 1 + 2 * drawn(3), layer.stride = 1 + drawn(3), layer.pad = drawn(layer.kernel);
    if (!layer.tile && drawn(2)) layer.inputs -= drawn(PANEL), layer.outputs -= drawn(PANEL);
    if (layer.kernel > least_side(&layer) + 2 * layer.pad) return 0;
    size_t places = layer.batch * out_side(&layer, layer.height) * out_side(&layer, layer.width), outputs = layer.outputs;
    size_t size = panel_size(taps_of(layer.kernel, layer.tile), layer.inputs);
    float *in = numbers(layer.batch * layer.height * layer.width * layer.inputs), *added = numbers(places * outputs);
    float *out = numbers(places * outputs), *folded = numbers(num_panels(outputs) * size), *bias = numbers(outputs);
    float *weights = numbers(outputs * layer.inputs * layer.kernel * layer.kernel), *norm[3], *variance = drawn_numbers(outputs, 1000, 1000, 0.5f);
    for (size_t at = 0; at < 3; at++) norm[at] = numbers(outputs);
    ConvolutionWeights of = {outputs, layer.inputs, layer.kernel, layer.tile, 0, weights, drawn(2) ? bias : NULL, NULL, NULL, NULL, NULL, 1e-3f};
    if (drawn(2)) of.gamma = drawn(2) ? norm[0] : NULL, of.beta = norm[1], of.mean = norm[2], of.variance = variance;
    fold_convolution(&of, folded, num_threads);
    layer.in = in, layer.weights = folded, layer.added = drawn(2) ? added : NULL;
    void *scratch = malloc((layer.tile ? winograd_scratch : direct_scratch)(&layer, num_threads));
    (layer.tile ? winograd_forward : direct_forward)(&layer, out, scratch, num_threads);
    for (size_t tried = 0; tried < 300; tried++) {
        size_t place = drawn(places), output = drawn(outputs);
        double most = 4e-5 * sqrt((double)layer.inputs * layer.kernel * layer.kernel);
        check_within(out[place * outputs + output], convolved_slowly(&layer, &of, place, output), most, "another value");
    }
    for (size_t at = 0; at < 3; at++) free(norm[at]);
    free(in), free(added), free(out), free(folded), free(bias), free(weights), free(variance), free(scratch);
    return 1;
}

int main(int count, char **arguments) { return run_rounds(count, arguments, try_round); }
