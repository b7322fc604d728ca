/* Eight numbers in registers through a norm and its activation, and to where there is room for fewer. */

#ifndef MXTRAIN_ACTIVATED_H
#define MXTRAIN_ACTIVATED_H

#include "channels/norm.h"
#include "channels/plane.h"
#include "vectors.h"

/* Write `count` numbers, at most eight; `room` is how many may be written: what is behind is written later. */
INLINE void write_lanes(float *to, __m256 numbers, size_t count, size_t room) {
    if (room >= LANES) {
        _mm256_storeu_ps(to, numbers);
        return;
    }
    float all[LANES];
    _mm256_storeu_ps(all, numbers);
    for (size_t at = 0; at < count && at < LANES; at++) to[at] = all[at];
}

INLINE __m256 normalized(const ChannelNorm *norm, __m256 number) {
    return _mm256_fmadd_ps(_mm256_sub_ps(number, _mm256_set1_ps(norm->mean)), _mm256_set1_ps(norm->scale),
                           _mm256_set1_ps(norm->shift));
}

/* What is no number stays none: of two of which one is none, min and max give the second. */
INLINE __m256 activated(const Activation activation, __m256 number) {
    __m256 zero = _mm256_setzero_ps(), six = _mm256_set1_ps(6);
    switch (activation) {
    case IDENTITY: return number;
    case RELU: return _mm256_max_ps(zero, number);
    case RELU6: return _mm256_min_ps(six, _mm256_max_ps(zero, number));
    default: {
        __m256 gate = _mm256_fmadd_ps(number, _mm256_set1_ps(1 / 6.0f), _mm256_set1_ps(0.5f));
        return _mm256_mul_ps(number, _mm256_min_ps(_mm256_set1_ps(1), _mm256_max_ps(zero, gate)));
    }
    }
}

#define FOR_ACTIVATIONS(activation, function, ...)               \
    switch (activation) {                                        \
    case IDENTITY: function(IDENTITY, __VA_ARGS__); break;       \
    case RELU: function(RELU, __VA_ARGS__); break;               \
    case RELU6: function(RELU6, __VA_ARGS__); break;             \
    default: function(HARD_SWISH, __VA_ARGS__);                  \
    }

#endif
