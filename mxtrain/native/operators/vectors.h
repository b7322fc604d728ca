/* Eight numbers at a time, in AVX2. */

#ifndef MXTRAIN_VECTORS_H
#define MXTRAIN_VECTORS_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define FMA __attribute__((target("avx2,fma")))
#define INLINE FMA static inline __attribute__((always_inline))

/* Which of eight are among the first `count`. */
FMA static inline __m256i first_of_eight(size_t count) {
    const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count < 8 ? (int)count : 8), places);
}

/* Return the first `count` numbers, or eight where there are more; `otherwise` where there are fewer. */
FMA static inline __m256 load_or(const float *numbers, size_t count, __m256 otherwise) {
    if (count >= 8) return _mm256_loadu_ps(numbers);
    __m256i are_there = first_of_eight(count);
    return _mm256_blendv_ps(otherwise, _mm256_maskload_ps(numbers, are_there), _mm256_castsi256_ps(are_there));
}

FMA static inline __m256 load(const float *numbers, size_t count) {
    if (count >= 8) return _mm256_loadu_ps(numbers);
    return _mm256_maskload_ps(numbers, first_of_eight(count));
}

FMA static inline void store(float *numbers, size_t count, __m256 values) {
    if (count >= 8)
        _mm256_storeu_ps(numbers, values);
    else
        _mm256_maskstore_ps(numbers, first_of_eight(count), values);
}

/* Add a row's numbers, two eights at a time: an addition takes as long as four of them in turn. */
INLINE void add_row(const float *numbers, size_t count, __m256 *even, __m256 *odd) {
    size_t at = 0;
    for (; at + 8 < count; at += 16) {
        *even = _mm256_add_ps(*even, _mm256_loadu_ps(numbers + at));
        *odd = _mm256_add_ps(*odd, load(numbers + at + 8, count - at - 8));
    }
    if (at < count) *even = _mm256_add_ps(*even, load(numbers + at, count - at));
}

FMA static inline float sum_of(__m256 numbers) {
    float all[8];
    _mm256_storeu_ps(all, numbers);
    return ((all[0] + all[4]) + (all[1] + all[5])) + ((all[2] + all[6]) + (all[3] + all[7]));
}

/* The same, in float64. */
FMA static inline double exact_sum_of(__m256 numbers) {
    float all[8];
    _mm256_storeu_ps(all, numbers);
    return (((double)all[0] + all[4]) + ((double)all[1] + all[5])) +
           (((double)all[2] + all[6]) + ((double)all[3] + all[7]));
}

/* e to the power of numbers that are not above 0: 2^n times a polynomial, within 2 units of the last place. */
FMA static inline __m256 exponential(__m256 x) {
    x = _mm256_max_ps(x, _mm256_set1_ps(-87.0f));
    __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
    __m256 p = _mm256_set1_ps(1.9875691500e-4f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.3981999507e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.3334519073e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1665795894e-2f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666665459e-1f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.0000001201e-1f));
    p = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1));
    __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(p, _mm256_castsi256_ps(power));
}

/* e to the power of numbers that are not above 0; 0 for the smallest, and what is no number stays none. */
FMA static inline __m256 exponential_or_nan(__m256 x) {
    __m256 found = _mm256_andnot_ps(_mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_LT_OQ), exponential(x));
    return _mm256_blendv_ps(found, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

#endif
