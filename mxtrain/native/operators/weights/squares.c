/* Squares in float64, which has all their digits, in an order that is always the same. */

#include "weights/squares.h"

#include <string.h>

#include "vectors.h"

/* Add the squares of four numbers. */
INLINE __m256d add_squares(__m256d sums, __m128 values) {
    __m256d wide = _mm256_cvtps_pd(values);
    return _mm256_fmadd_pd(wide, wide, sums);
}

/* The same of eight, and take the larger bits: without their signs floats are in the order of these. */
INLINE void add_eight(__m256 values, __m256d *low, __m256d *high, __m256i *largest) {
    __m256i bits = _mm256_and_si256(_mm256_castps_si256(values), _mm256_set1_epi32(0x7fffffff));
    *largest = _mm256_max_epu32(*largest, bits);
    *low = add_squares(*low, _mm256_castps256_ps128(values));
    *high = add_squares(*high, _mm256_extractf128_ps(values, 1));
}

FMA static double square_block(const float *values, size_t count, float *maximum) {
    __m256d sums[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};
    __m256i largest = _mm256_setzero_si256();
    size_t at = 0;
    for (; at + 16 <= count; at += 16) {
        add_eight(_mm256_loadu_ps(values + at), &sums[0], &sums[1], &largest);
        add_eight(_mm256_loadu_ps(values + at + 8), &sums[2], &sums[3], &largest);
    }
    if (at < count) add_eight(load(values + at, count - at), &sums[0], &sums[1], &largest);
    if (at + 8 < count) add_eight(load(values + at + 8, count - at - 8), &sums[2], &sums[3], &largest);
    uint32_t bits[8], found = 0;
    _mm256_storeu_si256((__m256i *)bits, largest);
    for (int lane = 0; lane < 8; lane++) found = bits[lane] > found ? bits[lane] : found;
    memcpy(maximum, &found, sizeof found);
    double all[4];
    _mm256_storeu_pd(all, _mm256_add_pd(_mm256_add_pd(sums[0], sums[1]), _mm256_add_pd(sums[2], sums[3])));
    return (all[0] + all[1]) + (all[2] + all[3]);
}

double square(const float *values, size_t count, float *maxima) {
    double total = 0;
    for (size_t start = 0; start < count; start += SQUARE_BLOCK) {
        size_t length = count - start < SQUARE_BLOCK ? count - start : SQUARE_BLOCK;
        total += square_block(values + start, length, maxima++);
    }
    return total;
}
