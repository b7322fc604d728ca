/* The sums of four rows and eight columns stay in registers. Sizes of weights and strides are known to the compiler. */

#include "channels/plane.h"

#include <math.h>
#include <string.h>

#include "channels/activated.h"
#include "vectors.h"

#define TILE 4         /* rows at a time */
#define MOST_KERNEL 7

static size_t larger(size_t one, size_t other) { return one > other ? one : other; }

int lay_out(Geometry *g) {
    size_t k = g->kernel, s = g->stride, wide = g->width + 2 * g->pad, high = g->height + 2 * g->pad;
    if ((k != 3 && k != 5 && k != MOST_KERNEL) || (s != 1 && s != 2) || g->pad >= k || wide < k || high < k) return 0;
    size_t phase = (wide + s - 1) / s;
    g->out_height = (high - k) / s + 1, g->out_width = (wide - k) / s + 1;
    g->out_row = whole_lanes(g->out_width), g->in_row = s * whole_lanes(phase);
    g->lead = (k - 1) / s;
    g->rows = high;
    g->row = (g->pad + s - 1) / s + whole_lanes((g->width + s - 1) / s);
    g->row = whole_lanes(larger(g->row, larger(g->out_row + g->lead, phase)));
    g->gradient_rows = g->lead + larger(g->out_height, (high - 1) / s + 1);
    g->gradient_row = whole_lanes(g->lead + larger(g->out_row, whole_lanes(phase)));
    return 1;
}

FMA void put_row(const Geometry *g, const float *row, size_t at, float *padded) {
    float *begin = padded + (at + g->pad) * g->row;
    if (g->stride == 1) {
        for (size_t column = 0; column < g->width; column += LANES) /* zeros behind the row's end */
            _mm256_storeu_ps(begin + g->pad + column, load(row + column, g->width - column));
        return;
    }
    size_t phase = g->rows * g->row;
    float *evens = begin + g->pad % 2 * phase + g->pad / 2, *odds = begin + (g->pad + 1) % 2 * phase + (g->pad + 1) / 2;
    for (size_t column = 0; column < g->width; column += 2 * LANES) {
        size_t left = g->width - column;
        __m256 low = load(row + column, left), high = left > LANES ? load(row + column + LANES, left - LANES) : _mm256_setzero_ps();
        __m256 one = _mm256_permute2f128_ps(low, high, 0x20), other = _mm256_permute2f128_ps(low, high, 0x31);
        _mm256_storeu_ps(evens + column / 2, _mm256_shuffle_ps(one, other, 0x88));
        _mm256_storeu_ps(odds + column / 2, _mm256_shuffle_ps(one, other, 0xdd));
    }
}

/* A channel's norm in registers. What follows it is between two limits, unless it is a hard swish. */
typedef struct {
    __m256 mean, scale, shift, least, most;
} NormOfLanes;

typedef enum { NO_NORM, LIMITED, SWISHED } Ending;

INLINE __m256 ended(const Ending ending, const NormOfLanes *norm, __m256 number) {
    if (ending == NO_NORM) return number;
    number = _mm256_fmadd_ps(_mm256_sub_ps(number, norm->mean), norm->scale, norm->shift);
    if (ending == SWISHED) return activated(HARD_SWISH, number);
    return _mm256_min_ps(norm->most, _mm256_max_ps(norm->least, number));
}

/* Add to the sums of `count` rows and eight columns. Of 3 x 3 each number of the input is loaded once, for all rows that it
   is a part of: the weights have room in registers. */
INLINE void add_taps_of_3(const size_t s, const size_t count, const float *in, size_t row_size, size_t phase,
                          const __m256 *weights, __m256 *sums) {
#pragma GCC unroll 9
    for (size_t top = 0; top < (count - 1) * s + 3; top++)
#pragma GCC unroll 3
        for (size_t right = 0; right < 3; right++) {
            __m256 numbers = _mm256_loadu_ps(in + top * row_size + right % s * phase + right / s);
#pragma GCC unroll 4
            for (size_t row = 0; row < count; row++)
                if (top >= row * s && top - row * s < 3)
                    sums[row] = _mm256_fmadd_ps(weights[(top - row * s) * 3 + right], numbers, sums[row]);
        }
}

INLINE void add_taps(const size_t k, const size_t s, const size_t count, const float *in, size_t row_size, size_t phase,
                     const __m256 *weights, __m256 *sums) {
    if (k == 3) {
        add_taps_of_3(s, count, in, row_size, phase, weights, sums);
        return;
    }
    for (size_t down = 0; down < k; down++)
#pragma GCC unroll 7
        for (size_t right = 0; right < k; right++) {
            const float *from = in + down * row_size + right % s * phase + right / s;
#pragma GCC unroll 4
            for (size_t row = 0; row < count; row++)
                sums[row] = _mm256_fmadd_ps(weights[down * k + right], _mm256_loadu_ps(from + row * s * row_size), sums[row]);
        }
}

INLINE void convolve_rows(const size_t k, const size_t s, const size_t count, const Ending ending, const Geometry *g,
                          const float *in, const __m256 *weights, const NormOfLanes *norm, float *out, size_t out_row, size_t room) {
    size_t row_size = g->row, phase = g->rows * row_size, width = g->out_width;
    /* From the last on: what is written behind a row's end is the beginning of the next one, which comes later. */
    for (size_t column = whole_lanes(width); column; column -= LANES) {
        size_t first = column - LANES;
        __m256 sums[TILE];
#pragma GCC unroll 4
        for (size_t row = 0; row < count; row++) sums[row] = _mm256_setzero_ps();
        add_taps(k, s, count, in + first, row_size, phase, weights, sums);
#pragma GCC unroll 4
        for (size_t row = 0; row < count; row++)
            write_lanes(out + row * out_row + first, ended(ending, norm, sums[row]), width - first, room - row * out_row - first);
    }
}

INLINE void convolve_plane(const size_t k, const size_t s, const Ending ending, const Geometry *g, const float *padded,
                           const float *numbers, const NormOfLanes *norm, float *out, size_t out_row) {
    __m256 weights[MOST_KERNEL * MOST_KERNEL];
#pragma GCC unroll 9
    for (size_t at = 0; at < k * k; at++) weights[at] = _mm256_broadcast_ss(numbers + at);
    for (size_t row = 0; row < g->out_height; row += TILE) {
        const float *in = padded + row * s * g->row;
        float *to = out + row * out_row;
        size_t room = (g->out_height - row - 1) * out_row + (ending ? g->out_width : out_row);
        switch (g->out_height - row) {
        case 1: convolve_rows(k, s, 1, ending, g, in, weights, norm, to, out_row, room); break;
        case 2: convolve_rows(k, s, 2, ending, g, in, weights, norm, to, out_row, room); break;
        case 3: convolve_rows(k, s, 3, ending, g, in, weights, norm, to, out_row, room); break;
        default: convolve_rows(k, s, TILE, ending, g, in, weights, norm, to, out_row, room);
        }
    }
}

/* Eight places of a phase of `count` rows, `stride` apart, of the input's gradient. `top` is the first row of weights
   that these rows meet, `phase` the first column. */
INLINE void sum_back(const size_t k, const size_t s, const size_t count, const size_t top,
                                                    const size_t phase, const Geometry *g, const float *gradient,
                                                    const float *weights, __m256 *sums) {
#pragma GCC unroll 4
    for (size_t row = 0; row < count; row++) sums[row] = _mm256_setzero_ps();
    for (size_t down = top; down < k; down += s)
#pragma GCC unroll 7
        for (size_t right = phase; right < k; right += s) {
            __m256 weight = _mm256_broadcast_ss(weights + down * k + right);
            const float *from = gradient - (down - top) / s * g->gradient_row - right / s;
#pragma GCC unroll 4
            for (size_t row = 0; row < count; row++)
                sums[row] = _mm256_fmadd_ps(weight, _mm256_loadu_ps(from + row * g->gradient_row), sums[row]);
        }
}

INLINE void back_rows(const size_t k, const size_t s, const size_t count, const size_t top, const Geometry *g,
                      const float *gradient, const float *weights, float *of_input) {
    __m256 sums[TILE], odds[TILE];
    for (size_t column = 0; column < g->in_row / s; column += LANES) {
        sum_back(k, s, count, top, 0, g, gradient + column, weights, sums);
        if (s == 2) sum_back(k, s, count, top, 1, g, gradient + column, weights, odds);
#pragma GCC unroll 4
        for (size_t row = 0; row < count; row++) {
            float *to = of_input + row * s * g->in_row + column * s;
            if (s == 1) {
                _mm256_storeu_ps(to, sums[row]);
                continue;
            }
            __m256 low = _mm256_unpacklo_ps(sums[row], odds[row]), high = _mm256_unpackhi_ps(sums[row], odds[row]);
            _mm256_storeu_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
            _mm256_storeu_ps(to + LANES, _mm256_permute2f128_ps(low, high, 0x31));
        }
    }
}

/* The rows of the input from `first` on, `stride` apart. */
INLINE void back_phase(const size_t k, const size_t s, const size_t top, size_t first, const Geometry *g,
                       const float *gradient, const float *weights, float *of_input) {
    for (size_t row = first; row < g->height; row += TILE * s) {
        const float *from = gradient + ((row + g->pad - top) / s + g->lead) * g->gradient_row + g->lead;
        float *to = of_input + row * g->in_row;
        switch ((g->height - row + s - 1) / s) {
        case 1: back_rows(k, s, 1, top, g, from, weights, to); break;
        case 2: back_rows(k, s, 2, top, g, from, weights, to); break;
        case 3: back_rows(k, s, 3, top, g, from, weights, to); break;
        default: back_rows(k, s, TILE, top, g, from, weights, to);
        }
    }
}

INLINE void back_plane(const size_t k, const size_t s, const Geometry *g, const float *gradient, const float *weights,
                       float *of_input) {
    back_phase(k, s, 0, s == 1 ? 0 : g->pad % 2, g, gradient, weights, of_input);
    if (s == 2) back_phase(k, s, 1, (g->pad + 1) % 2, g, gradient, weights, of_input);
}

/* Add to `count` rows of the weights' gradient, from row `top` on. */
INLINE void add_rows(const size_t k, const size_t s, const size_t count, size_t top, const Geometry *g,
                     const float *padded, const float *gradient, double *of_weights) {
    __m256 sums[9 + MOST_KERNEL]; /* of so many at most: 9 of 3 x 3, 10 of 5 x 5, a row of 7 */
    size_t phase = g->rows * g->row;
#pragma GCC unroll 10
    for (size_t each = 0; each < count * k; each++) sums[each] = _mm256_setzero_ps();
    for (size_t row = 0; row < g->out_height; row++) {
        const float *of_out = gradient + (row + g->lead) * g->gradient_row + g->lead;
        const float *in = padded + (row * s + top) * g->row;
        for (size_t column = 0; column < g->out_row; column += LANES) {
            __m256 factor = _mm256_loadu_ps(of_out + column);
#pragma GCC unroll 3
            for (size_t down = 0; down < count; down++)
#pragma GCC unroll 7
                for (size_t right = 0; right < k; right++) {
                    const float *from = in + down * g->row + right % s * phase + right / s + column;
                    sums[down * k + right] = _mm256_fmadd_ps(factor, _mm256_loadu_ps(from), sums[down * k + right]);
                }
        }
    }
#pragma GCC unroll 10
    for (size_t each = 0; each < count * k; each++) of_weights[top * k + each] += exact_sum_of(sums[each]);
}

INLINE void add_plane(const size_t k, const size_t s, const Geometry *g, const float *padded, const float *gradient,
                      double *of_weights) {
    if (k == 3) add_rows(k, s, 3, 0, g, padded, gradient, of_weights);
    if (k == 5) {
        add_rows(k, s, 2, 0, g, padded, gradient, of_weights);
        add_rows(k, s, 2, 2, g, padded, gradient, of_weights);
        add_rows(k, s, 1, 4, g, padded, gradient, of_weights);
    }
    if (k == MOST_KERNEL)
        for (size_t top = 0; top < k; top++) add_rows(k, s, 1, top, g, padded, gradient, of_weights);
}

#define FOR_SIZES(g, function, ...)                                      \
    switch ((g)->kernel * 2 + (g)->stride) {                             \
    case 3 * 2 + 1: function(3, 1, __VA_ARGS__); break;                  \
    case 3 * 2 + 2: function(3, 2, __VA_ARGS__); break;                  \
    case 5 * 2 + 1: function(5, 1, __VA_ARGS__); break;                  \
    case 5 * 2 + 2: function(5, 2, __VA_ARGS__); break;                  \
    case MOST_KERNEL * 2 + 1: function(MOST_KERNEL, 1, __VA_ARGS__); break; \
    default: function(MOST_KERNEL, 2, __VA_ARGS__);                      \
    }

FMA void convolve(const Geometry *g, const float *padded, const float *weights, float *out) {
    FOR_SIZES(g, convolve_plane, NO_NORM, g, padded, weights, NULL, out, g->out_row)
}

FMA void convolve_and_normalize(const Geometry *g, const float *padded, const float *weights, const ChannelNorm *norm,
                                float *out) {
    Activation activation = norm->activation;
    const NormOfLanes lanes = {_mm256_set1_ps(norm->mean), _mm256_set1_ps(norm->scale), _mm256_set1_ps(norm->shift),
                               _mm256_set1_ps(activation == IDENTITY ? -INFINITY : 0),
                               _mm256_set1_ps(activation == RELU6 ? 6 : INFINITY)};
    if (activation == HARD_SWISH) {
        FOR_SIZES(g, convolve_plane, SWISHED, g, padded, weights, &lanes, out, g->out_width)
    } else {
        FOR_SIZES(g, convolve_plane, LIMITED, g, padded, weights, &lanes, out, g->out_width)
    }
}

FMA void convolve_back(const Geometry *g, const float *gradient, const float *weights, float *of_input) {
    FOR_SIZES(g, back_plane, g, gradient, weights, of_input)
}

FMA void add_gradient_of_weights(const Geometry *g, const float *padded, const float *gradient, double *of_weights) {
    FOR_SIZES(g, add_plane, g, padded, gradient, of_weights)
}
