/* Dropout by numbers that a seed makes, as often as they are needed, in any order and by any thread. */

#ifndef MXTRAIN_DROPOUT_H
#define MXTRAIN_DROPOUT_H

#include "vectors.h"

#define SEEDS 16777216.0f /* how many whole numbers each of a seed's two parts may be: those that float32 has */

/* What stays is what has drawn `least` or more of 2^32, and is multiplied. */
typedef struct {
    uint64_t seed;
    uint32_t least;
    float factor;
} Dropout;

/* Return the dropout of a share of all numbers, `rate`, by two whole numbers below SEEDS. */
static inline Dropout dropout_of(const float *seed, float rate) {
    Dropout found = {(uint64_t)seed[0] * (uint64_t)SEEDS + (uint64_t)seed[1], (uint32_t)((double)rate * 4294967296.0),
                     (float)(1 / (1 - (double)rate))};
    return found;
}

/* All bits of a number depend on all of this one's (splitmix64). */
static inline uint64_t mixed(uint64_t number) {
    number += 0x9e3779b97f4a7c15u;
    number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9u;
    number = (number ^ number >> 27) * 0x94d049bb133111ebu;
    return number ^ number >> 31;
}

/* Drop numbers of a row, which begin with that of column `first`, and multiply the others: as many eights as hold `count`. */
FMA static inline void drop(const Dropout *dropout, uint64_t row, size_t first, size_t count, float *numbers) {
    uint64_t key = mixed(mixed(dropout->seed) + row);
    __m256i low = _mm256_set1_epi32((int)(uint32_t)key), high = _mm256_set1_epi32((int)(uint32_t)(key >> 32));
    __m256i column = _mm256_add_epi32(_mm256_set1_epi32((int)first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    __m256i least = _mm256_set1_epi32((int)dropout->least);
    __m256 factor = _mm256_set1_ps(dropout->factor);
    for (size_t at = 0; at < count; at += 8, column = _mm256_add_epi32(column, _mm256_set1_epi32(8))) {
        __m256i drawn = _mm256_add_epi32(_mm256_mullo_epi32(column, _mm256_set1_epi32((int)0x9e3779b1u)), low);
        drawn = _mm256_xor_si256(drawn, _mm256_srli_epi32(drawn, 16));
        drawn = _mm256_xor_si256(_mm256_mullo_epi32(drawn, _mm256_set1_epi32(0x21f0aaad)), high);
        drawn = _mm256_xor_si256(drawn, _mm256_srli_epi32(drawn, 15));
        drawn = _mm256_mullo_epi32(drawn, _mm256_set1_epi32(0x735a2d97));
        drawn = _mm256_xor_si256(drawn, _mm256_srli_epi32(drawn, 15));
        __m256 stays = _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_max_epu32(drawn, least), drawn));
        __m256 number = _mm256_mul_ps(_mm256_loadu_ps(numbers + at), factor);
        _mm256_storeu_ps(numbers + at, _mm256_and_ps(number, stays));
    }
}

#endif
