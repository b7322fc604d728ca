/* Random expanded depthwise convolutions, and gates of the means of their planes, in arrays as long as they have to be and
   no longer, compared with loops in float64; built with sanitizers, which end it where memory is misused. */

#include "expanded.h"
#include "folded.h"
#include "gate.h"

static double convolved_slowly(const Expanded *layer, const Folded *weights, size_t sample, size_t channel, size_t row,
                               size_t column) {
    const Geometry *g = &layer->geometry;
    double sum = 0;
    for (size_t tap = 0; tap < g->kernel * g->kernel; tap++) {
        long down = (long)(row * g->stride + tap / g->kernel) - (long)g->pad;
        long right = (long)(column * g->stride + tap % g->kernel) - (long)g->pad;
        if (down < 0 || right < 0 || down >= (long)g->height || right >= (long)g->width) continue;
        size_t place = (size_t)down * g->width + (size_t)right;
        sum += layer->weights[channel * g->kernel * g->kernel + tap] *
               expanded_slowly(weights, &layer->expansion, sample, channel, place);
    }
    const Norm *norm = layer->behind;
    return activated(norm->activation,
                     normalized_slowly(sum, norm->has_gamma ? norm->gamma[channel] : 1, norm->beta[channel],
                                       norm->running_mean[channel], norm->running_variance[channel], norm->epsilon));
}

/* Compare what comes out, and the means. */
static void check_outputs(const Expanded *layer, const Folded *weights, const float *out, const float *means) {
    const Geometry *g = &layer->geometry;
    size_t size = g->out_height * g->out_width, channels = layer->expansion.outputs;
    for (size_t plane = 0; plane < layer->expansion.batch * channels; plane++) {
        double sum = 0;
        for (size_t at = 0; at < size; at++) {
            double expected =
                convolved_slowly(layer, weights, plane / channels, plane % channels, at / g->out_width, at % g->out_width);
            check_within(out[plane * size + at], expected, 1e-3 * (10 + fabs(expected)), "another value");
            sum += out[plane * size + at];
        }
        check_within(means[plane], sum / (double)size, 1e-3, "another mean");
    }
}

static void try_gate(size_t batch, size_t channels, size_t plane, const float *in) {
    size_t hidden = 1 + drawn(20);
    float *first = numbers(hidden * channels), *first_bias = numbers(hidden), *second = numbers(channels * hidden);
    float *second_bias = numbers(channels), *out = numbers(batch * channels);
    Gate gate = {batch, channels, plane, hidden, in, first, first_bias, second, second_bias, 0.2f, 0.5f};
    float *scratch = numbers(gate_scratch(&gate));
    gate_forward(&gate, out, scratch, 1);
    for (size_t at = 0; at < batch * channels; at++) {
        double expected = second_bias[at % channels];
        for (size_t row = 0; row < hidden; row++) {
            double number = first_bias[row];
            for (size_t each = 0; each < channels * plane; each++)
                number += in[at / channels * channels * plane + each] * first[row * channels + each / plane] / (double)plane;
            expected += fmax(0, number) * second[at % channels * hidden + row];
        }
        check_within(out[at], fmin(1, fmax(0, expected * 0.2f + 0.5)), 1e-3, "another gate");
    }
    free(first), free(first_bias), free(second), free(second_bias), free(out), free(scratch);
}

static int try_round(long round) {
    (void)round;
    static const size_t KERNELS[] = {3, 5, 7};
    size_t inputs = 1 + drawn(12), channels = 1 + drawn(drawn(4) ? 14 : 60), batch = 1 + drawn(3), kernel = KERNELS[drawn(3)];
    Expanded layer = {.geometry = {.kernel = kernel, .stride = 1 + drawn(2), .pad = drawn(kernel), .height = 1 + drawn(12),
                                   .width = 1 + drawn(35)}};
    Geometry *g = &layer.geometry;
    if (!lay_out(g)) return 0;
    Folded weights = drawn_weights(channels, inputs);
    size_t plane = g->height * g->width, out_plane = g->out_height * g->out_width;
    float *in = numbers(batch * inputs * plane), *taps = numbers(channels * kernel * kernel);
    float *out = numbers(batch * channels * out_plane), *means = numbers(batch * channels);
    Norm behind = {numbers(channels), numbers(channels), numbers(channels),  variances(channels),
                   1e-3f,             0.9f,              (Activation)drawn(4), drawn(3) != 0};
    layer.expansion = (Pointwise){.batch = batch, .inputs = inputs, .outputs = channels, .plane = plane, .in = in,
                                  .weights = weights.folded, .activation = (Activation)drawn(4)};
    layer.weights = taps, layer.behind = &behind;
    float *scratch = numbers(expanded_scratch(&layer));
    expanded_forward(&layer, out, means, scratch, 1);
    check_outputs(&layer, &weights, out, means);
    try_gate(batch, channels, out_plane, out), try_gate(batch, channels, 1, means);
    end_weights(&weights);
    free(in), free(taps), free(out), free(means), free(scratch);
    free((void *)behind.gamma), free((void *)behind.beta), free(behind.running_mean), free(behind.running_variance);
    return 1;
}

int main(int count, char **arguments) { return run_rounds(count, arguments, try_round); }
