/* Eight numbers at a time. The sums of a plane are in float32, those of planes in float64. */

#include "channels/norm.h"

#include <string.h>

#include "channels/activated.h"
#include "channels/plane.h"
#include "vectors.h"

Activation activation_of(const char *name) {
    if (!strcmp(name, "relu")) return RELU;
    if (!strcmp(name, "relu6")) return RELU6;
    return strcmp(name, "hard_swish") ? IDENTITY : HARD_SWISH;
}

/* The numbers from a place on that belong to a plane. */
INLINE size_t room_of(Plane plane, size_t row, size_t column) {
    return (plane.height - 1 - row) * plane.stride + plane.width - column;
}

/* Less than a mean, and 0 for what is behind the `count` numbers. */
INLINE __m256 differences(const float *from, size_t count, __m256 mean) {
    __m256 less = _mm256_sub_ps(load(from, count), mean);
    return count < LANES ? _mm256_and_ps(less, _mm256_castsi256_ps(first_of_eight(count))) : less;
}

FMA void add_moments(Plane plane, Moments *moments) {
    __m256 zero = _mm256_setzero_ps(), even = zero, odd = zero;
    for (size_t row = 0; row < plane.height; row++) add_row(plane.numbers + row * plane.stride, plane.width, &even, &odd);
    double count = (double)(plane.height * plane.width), mean = (exact_sum_of(even) + exact_sum_of(odd)) / count;
    __m256 middle = _mm256_set1_ps((float)mean);
    even = odd = zero;
    for (size_t row = 0; row < plane.height; row++) {
        const float *numbers = plane.numbers + row * plane.stride;
        size_t column = 0;
        for (; column + LANES < plane.width; column += 2 * LANES) {
            __m256 first = differences(numbers + column, LANES, middle);
            __m256 second = differences(numbers + column + LANES, plane.width - column - LANES, middle);
            even = _mm256_fmadd_ps(first, first, even), odd = _mm256_fmadd_ps(second, second, odd);
        }
        if (column < plane.width) {
            __m256 last = differences(numbers + column, plane.width - column, middle);
            even = _mm256_fmadd_ps(last, last, even);
        }
    }
    double total = moments->count + count, shift = mean - moments->mean;
    moments->mean += shift * count / total;
    moments->squares += exact_sum_of(even) + exact_sum_of(odd) + shift * shift * moments->count * count / total;
    moments->count = total;
}

/* The gradient before an activation from that behind it. As in MXNet none passes at 0, one does at 6; a gate has none
   at its limits. */
INLINE __m256 before(const Activation activation, __m256 number, __m256 gradient) {
    __m256 zero = _mm256_setzero_ps(), positive = _mm256_cmp_ps(number, zero, _CMP_NLE_UQ);
    switch (activation) {
    case IDENTITY: return gradient;
    case RELU: return _mm256_and_ps(gradient, positive);
    case RELU6:
        return _mm256_and_ps(gradient, _mm256_and_ps(positive, _mm256_cmp_ps(number, _mm256_set1_ps(6), _CMP_NGT_UQ)));
    default: {
        __m256 sixth = _mm256_set1_ps(1 / 6.0f), one = _mm256_set1_ps(1);
        __m256 gate = _mm256_fmadd_ps(number, sixth, _mm256_set1_ps(0.5f));
        __m256 moves = _mm256_and_ps(_mm256_cmp_ps(gate, zero, _CMP_NLE_UQ), _mm256_cmp_ps(gate, one, _CMP_NGE_UQ));
        __m256 slope = _mm256_fmadd_ps(number, _mm256_and_ps(sixth, moves), _mm256_min_ps(one, _mm256_max_ps(zero, gate)));
        return _mm256_mul_ps(gradient, slope);
    }
    }
}

INLINE void normalize_plane(const Activation activation, Plane plane, const ChannelNorm *norm, Plane out) {
    for (size_t row = 0; row < plane.height; row++)
        for (size_t column = 0; column < plane.width; column += LANES) {
            size_t left = plane.width - column;
            __m256 each = normalized(norm, load(plane.numbers + row * plane.stride + column, left));
            write_lanes(out.numbers + row * out.stride + column, activated(activation, each), left, room_of(out, row, column));
        }
}

INLINE void normalize_to_lanes(const Activation activation, const float *row, size_t width, const ChannelNorm *norm,
                               float *out) {
    for (size_t column = 0; column < width; column += LANES) {
        __m256 each = activated(activation, normalized(norm, load(row + column, width - column)));
        if (width - column < LANES) each = _mm256_and_ps(each, _mm256_castsi256_ps(first_of_eight(width - column)));
        _mm256_storeu_ps(out + column, each);
    }
}

INLINE void add_plane(const Activation activation, Plane plane, Plane gradient, const ChannelNorm *norm, Plane out,
                      GradientSums *sums) {
    __m256 of_gradients = _mm256_setzero_ps(), of_products = of_gradients;
    for (size_t row = 0; row < plane.height; row++)
        for (size_t column = 0; column < plane.width; column += LANES) {
            size_t left = plane.width - column;
            __m256 number = load(plane.numbers + row * plane.stride + column, left);
            __m256 each = load(gradient.numbers + row * gradient.stride + column, left);
            each = before(activation, normalized(norm, number), each);
            of_gradients = _mm256_add_ps(of_gradients, each);
            of_products = _mm256_fmadd_ps(each, _mm256_sub_ps(number, _mm256_set1_ps(norm->mean)), of_products);
            if (out.numbers) write_lanes(out.numbers + row * out.stride + column, each, left, room_of(out, row, column));
        }
    sums->gradients += exact_sum_of(of_gradients), sums->products += exact_sum_of(of_products) * norm->inverse;
}

INLINE void back_plane(const Activation activation, Plane plane, Plane gradient, const ChannelNorm *norm,
                       const GradientSums *sums, double count, Plane out, int is_padded) {
    __m256 scale = _mm256_set1_ps(norm->scale), mean = _mm256_set1_ps((float)(sums->gradients / count));
    __m256 slope = _mm256_set1_ps((float)(sums->products / count * norm->inverse)), middle = _mm256_set1_ps(norm->mean);
    for (size_t row = 0; row < plane.height; row++)
        for (size_t column = 0; column < plane.width; column += LANES) {
            size_t left = plane.width - column;
            __m256 number = load(plane.numbers + row * plane.stride + column, left);
            __m256 each = load(gradient.numbers + row * gradient.stride + column, left);
            each = _mm256_sub_ps(before(activation, normalized(norm, number), each), mean);
            each = _mm256_mul_ps(scale, _mm256_fnmadd_ps(slope, _mm256_sub_ps(number, middle), each));
            float *to = out.numbers + row * out.stride + column;
            if (is_padded)
                _mm256_storeu_ps(to, left < LANES ? _mm256_and_ps(each, _mm256_castsi256_ps(first_of_eight(left))) : each);
            else
                write_lanes(to, each, left, room_of(out, row, column));
        }
}

FMA void normalize_row(const float *row, size_t width, const ChannelNorm *norm, float *out) {
    FOR_ACTIVATIONS(norm->activation, normalize_to_lanes, row, width, norm, out)
}

FMA void normalize(Plane plane, const ChannelNorm *norm, Plane out) {
    FOR_ACTIVATIONS(norm->activation, normalize_plane, plane, norm, out)
}

FMA void add_gradients(Plane plane, Plane gradient, const ChannelNorm *norm, Plane out, GradientSums *sums) {
    FOR_ACTIVATIONS(norm->activation, add_plane, plane, gradient, norm, out, sums)
}

FMA void normalize_back(Plane plane, Plane gradient, const ChannelNorm *norm, const GradientSums *sums, double count,
                        Plane out, int is_padded) {
    FOR_ACTIVATIONS(norm->activation, back_plane, plane, gradient, norm, sums, count, out, is_padded)
}
