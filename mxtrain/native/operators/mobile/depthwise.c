/* Eight channels of four places stay in registers, so that a number is loaded once for each row of the kernel. */

#include "mobile/depthwise.h"

#include <math.h>

#include "channels/activated.h"

#define TILE 4 /* places */

/* What follows sums: a hard swish, which the compiler knows, or the limits that other activations are. */
typedef struct {
    __m256 lowest, highest;
} Limits;

/* What is no number stays none. */
INLINE __m256 limited(const int is_swish, Limits limits, __m256 number) {
    return is_swish ? activated(HARD_SWISH, number) : _mm256_min_ps(limits.highest, _mm256_max_ps(limits.lowest, number));
}

INLINE void convolve_tile(const size_t kernel, const size_t stride, const size_t count, const int is_swish,
                          Limits limits, const float *const *rows, size_t first, const float *weights, float *out, size_t step) {
    __m256 sums[TILE];
#pragma GCC unroll 4
    for (size_t at = 0; at < count; at++) sums[at] = _mm256_loadu_ps(weights);
    weights += PANEL;
#pragma GCC unroll 5
    for (size_t down = 0; down < kernel; down++) {
        __m256 in[(TILE - 1) * 2 + MOST_TAPS_DOWN];
#pragma GCC unroll 11
        for (size_t at = 0; at < (count - 1) * stride + kernel; at++) in[at] = _mm256_loadu_ps(rows[down] + (first + at) * PANEL);
#pragma GCC unroll 5
        for (size_t right = 0; right < kernel; right++, weights += PANEL) {
            __m256 factors = _mm256_loadu_ps(weights);
#pragma GCC unroll 4
            for (size_t at = 0; at < count; at++) sums[at] = _mm256_fmadd_ps(in[at * stride + right], factors, sums[at]);
        }
    }
#pragma GCC unroll 4
    for (size_t at = 0; at < count; at++) _mm256_storeu_ps(out + at * step, limited(is_swish, limits, sums[at]));
}

INLINE void convolve_all(const size_t kernel, const size_t stride, const int is_swish, Limits limits, const float *const *rows,
                         const float *weights, size_t width, size_t channels, float *out, size_t step) {
    for (size_t channel = 0; channel < channels; channel += LANES, weights += LANES, out += LANES) {
        const float *from[MOST_TAPS_DOWN];
        for (size_t down = 0; down < kernel; down++) from[down] = rows[down] + channel;
        size_t at = 0;
        for (; at + TILE <= width; at += TILE)
            convolve_tile(kernel, stride, TILE, is_swish, limits, from, at * stride, weights, out + at * step, step);
        switch (width - at) {
        case 3: convolve_tile(kernel, stride, 3, is_swish, limits, from, at * stride, weights, out + at * step, step); break;
        case 2: convolve_tile(kernel, stride, 2, is_swish, limits, from, at * stride, weights, out + at * step, step); break;
        case 1: convolve_tile(kernel, stride, 1, is_swish, limits, from, at * stride, weights, out + at * step, step); break;
        }
    }
}

#define CONVOLVE(kernel, stride)                                                                          \
    if (activation == HARD_SWISH)                                                                         \
        convolve_all(kernel, stride, 1, limits, rows, weights, width, channels, out, step);               \
    else                                                                                                  \
        convolve_all(kernel, stride, 0, limits, rows, weights, width, channels, out, step);

FMA void convolve_rows(size_t kernel, size_t stride, Activation activation, const float *const *rows, const float *weights,
                       size_t width, size_t channels, float *out, size_t step) {
    Limits limits = {_mm256_set1_ps(activation == IDENTITY ? -INFINITY : 0), _mm256_set1_ps(activation == RELU6 ? 6 : INFINITY)};
    switch (kernel * 2 + stride) {
    case 3 * 2 + 1: CONVOLVE(3, 1) break;
    case 3 * 2 + 2: CONVOLVE(3, 2) break;
    case 5 * 2 + 1: CONVOLVE(5, 1) break;
    default: CONVOLVE(5, 2)
    }
}
