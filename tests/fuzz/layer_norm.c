/* Random LayerNorms in arrays as long as they have to be and no longer, compared with loops in float64; built with
   sanitizers, which end it where memory is misused. */

#include "tokens/layer_norm.h"
#include "drawn.h"

static float *numbers(size_t count) { return drawn_numbers(count, 4000, 1000, -2); }

static void check(double found, double expected, const char *what) {
    check_within(found, expected, 1e-4 * (1 + fabs(expected)), what);
}

static void try_one(size_t rows, size_t width) {
    size_t count = rows * width;
    float *data = numbers(count), *gamma = numbers(width), *beta = numbers(width), *of_out = numbers(count);
    float *out = numbers(count), *of_data = numbers(count), *of_gamma = numbers(width), *of_beta = numbers(width);
    LayerNorm norm = {rows, width, data, gamma, beta, 1e-2f};
    float *scratch = numbers(layer_norm_scratch(&norm));
    layer_norm(&norm, out, 1);
    layer_norm_backward(&norm, of_out, of_data, of_gamma, of_beta, scratch, 1);
    double *gammas = calloc(width, sizeof *gammas), *betas = calloc(width, sizeof *betas);
    for (size_t row = 0; row < rows; row++) {
        const float *begin = data + row * width, *outer = of_out + row * width;
        double mean = 0, variance = 0, of_all = 0, along = 0;
        for (size_t at = 0; at < width; at++) mean += begin[at] / (double)width;
        for (size_t at = 0; at < width; at++) variance += (begin[at] - mean) * (begin[at] - mean) / (double)width;
        double inverse = 1 / sqrt(variance + norm.epsilon);
        for (size_t at = 0; at < width; at++) {
            double normed = (begin[at] - mean) * inverse, inner = (double)outer[at] * gamma[at];
            check(out[row * width + at], normed * gamma[at] + beta[at], "another value");
            gammas[at] += outer[at] * normed, betas[at] += outer[at];
            of_all += inner / (double)width, along += inner * normed / (double)width;
        }
        for (size_t at = 0; at < width; at++) {
            double normed = (begin[at] - mean) * inverse, inner = (double)outer[at] * gamma[at];
            check(of_data[row * width + at], inverse * (inner - of_all - normed * along), "another gradient");
        }
    }
    for (size_t at = 0; at < width; at++) {
        check(of_gamma[at], gammas[at], "another gradient of gamma");
        check(of_beta[at], betas[at], "another gradient of beta");
    }
    free(data), free(gamma), free(beta), free(of_out), free(out), free(of_data), free(of_gamma), free(of_beta);
    free(scratch), free(gammas), free(betas);
}

static int try_round(long round) {
    try_one(drawn(round % 10 ? 40 : 3000), 1 + drawn(100));
    return 1;
}

int main(int count, char **arguments) { return run_rounds(count, arguments, try_round); }
