/* Weights of convolutions with a norm folded in, in panels of outputs, computed in float64 and rounded once. */

#include <math.h>
#include <string.h>

#include "convolution.h"
#include "threads.h"

#define MOST_TAPS 36

static void fold_output(const ConvolutionWeights *from, size_t output, float *panel) {
    size_t area = from->kernel * from->kernel, taps = taps_of(from->kernel, from->tile), lane = output % PANEL;
    double scale = 1, shift = from->bias ? from->bias[output] : 0;
    if (from->variance) {
        scale = (from->gamma ? from->gamma[output] : 1) / sqrt((double)from->variance[output] + from->epsilon);
        shift = from->beta[output] + (shift - from->mean[output]) * scale;
    }
    panel[lane] = (float)shift;
    for (size_t input = 0; input < from->inputs; input++) {
        const float *weights = from->weights + (output * from->inputs + input) * area;
        double scaled[MOST_TAPS], transformed[MOST_TAPS];
        for (size_t at = 0; at < area; at++) scaled[at] = weights[at] * scale;
        if (from->tile) transform_kernel(from->tile, scaled, transformed);
        for (size_t tap = 0; tap < taps; tap++) {
            size_t row = from->is_plain ? input * taps + tap : tap * from->inputs + input;
            panel[PANEL * (1 + row) + lane] = (float)(from->tile ? transformed : scaled)[tap];
        }
    }
}

void fold_convolution(const ConvolutionWeights *from, float *folded, int num_threads) {
    size_t size = panel_size(taps_of(from->kernel, from->tile), from->inputs);
#pragma omp parallel for num_threads(num_threads)
    for (size_t panel = 0; panel < folded_panels(from->outputs); panel++) {
        memset(folded + panel * size, 0, size * sizeof *folded);
        for (size_t output = panel * PANEL; output < (panel + 1) * PANEL && output < from->outputs; output++)
            fold_output(from, output, folded + panel * size);
    }
}
