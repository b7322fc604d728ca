/* Weights of convolutions with a norm folded in, in panels of outputs, computed in float64 and rounded once. */

#include <math.h>
#include <string.h>

#include "convolutions/convolution.h"
#include "threads.h"

#define AREA 9              /* of a kernel that is transformed, */
#define MOST_TRANSFORMED 36 /* and the most that it becomes */

/* The factor of an output's weights, and what is added to it. */
static double fold_norm(const ConvolutionWeights *from, size_t output, double *scale) {
    double shift = from->bias ? from->bias[output] : 0;
    *scale = 1;
    if (!from->variance) return shift;
    *scale = (from->gamma ? from->gamma[output] : 1) / sqrt((double)from->variance[output] + from->epsilon);
    return from->beta[output] + (shift - from->mean[output]) * *scale;
}

/* Where the weights of a tap and an input begin, of all outputs of a panel. */
static float *row_of(const ConvolutionWeights *from, size_t input, size_t tap, float *panel) {
    size_t taps = taps_of(from->kernel, from->tile);
    return panel + PANEL * (1 + (from->is_plain ? input * taps + tap : tap * from->inputs + input));
}

/* Weights of `count` outputs from `first` on, for one input after the other, so that each row is written once. */
static void fold_taps(const ConvolutionWeights *from, size_t first, size_t count, const double *scales, float *panel) {
    size_t taps = taps_of(from->kernel, from->tile);
    for (size_t input = 0; input < from->inputs; input++)
        for (size_t tap = 0; tap < taps; tap++) {
            const float *weights = from->weights + (first * from->inputs + input) * taps + tap;
            float *row = row_of(from, input, tap, panel);
            for (size_t lane = 0; lane < count; lane++) row[lane] = (float)(weights[lane * from->inputs * taps] * scales[lane]);
        }
}

static void fold_transformed(const ConvolutionWeights *from, size_t first, size_t count, const double *scales, float *panel) {
    double kernels[AREA][PANEL] = {{0}}, transformed[MOST_TRANSFORMED][PANEL];
    for (size_t input = 0; input < from->inputs; input++) {
        for (size_t lane = 0; lane < count; lane++) {
            const float *weights = from->weights + ((first + lane) * from->inputs + input) * AREA;
            for (size_t at = 0; at < AREA; at++) kernels[at][lane] = weights[at] * scales[lane];
        }
        transform_kernels(from->tile, kernels, transformed);
        for (size_t tap = 0; tap < taps_of(from->kernel, from->tile); tap++) {
            float *row = row_of(from, input, tap, panel);
            for (size_t lane = 0; lane < count; lane++) row[lane] = (float)transformed[tap][lane];
        }
    }
}

static void fold_panel(const ConvolutionWeights *from, size_t first, size_t count, float *panel) {
    double scales[PANEL];
    for (size_t lane = 0; lane < count; lane++) panel[lane] = (float)fold_norm(from, first + lane, &scales[lane]);
    if (from->tile)
        fold_transformed(from, first, count, scales, panel);
    else
        fold_taps(from, first, count, scales, panel);
}

void fold_convolution(const ConvolutionWeights *from, float *folded, int num_threads) {
    size_t size = panel_size(taps_of(from->kernel, from->tile), from->inputs);
#pragma omp parallel for num_threads(num_threads)
    for (size_t panel = 0; panel < num_panels(from->outputs); panel++) {
        size_t first = panel * PANEL, left = from->outputs - first, count = left < PANEL ? left : PANEL;
        float *to = folded + panel * size;
        if (count < PANEL) memset(to, 0, size * sizeof *to);
        fold_panel(from, first, count, to);
    }
}
