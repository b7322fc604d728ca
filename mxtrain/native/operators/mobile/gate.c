/* A gate and each number before it are one thread's. */

#include "mobile/gate.h"

#include "channels/norm.h"
#include "channels/plane.h"
#include "vectors.h"

#define AT_ONCE 32 /* places, whose sum is added to the others' */

FMA void mean_channels(const float *in, size_t count, size_t step, size_t channels, float *means) {
    for (size_t channel = 0; channel < channels; channel += LANES) {
        __m256 total = _mm256_setzero_ps();
        for (size_t first = 0; first < count; first += AT_ONCE) {
            __m256 sum = _mm256_setzero_ps();
            for (size_t at = first; at < first + AT_ONCE && at < count; at++)
                sum = _mm256_add_ps(sum, _mm256_loadu_ps(in + at * step + channel));
            total = _mm256_add_ps(total, sum);
        }
        _mm256_storeu_ps(means + channel, _mm256_div_ps(total, _mm256_set1_ps((float)count)));
    }
}

FMA static float product_of(const float *one, const float *other, size_t count) {
    __m256 even = _mm256_setzero_ps(), odd = even;
    size_t at = 0;
    for (; at + 8 < count; at += 16) {
        size_t left = count - at - 8;
        even = _mm256_fmadd_ps(_mm256_loadu_ps(one + at), _mm256_loadu_ps(other + at), even);
        odd = _mm256_fmadd_ps(load(one + at + 8, left), load(other + at + 8, left), odd);
    }
    if (at < count) even = _mm256_fmadd_ps(load(one + at, count - at), load(other + at, count - at), even);
    return sum_of(_mm256_add_ps(even, odd));
}

float hidden_number(const Gate *gate, const float *means, size_t at) {
    float number = product_of(gate->first + at * gate->channels, means, gate->channels) + gate->first_bias[at];
    return number < 0 ? 0 : number;
}

/* What is no number stays none. */
static float limited(float number) { return number < 0 ? 0 : number > 1 ? 1 : number; }

float gate_of(const Gate *gate, const float *hidden, size_t channel) {
    float number = product_of(gate->second + channel * gate->hidden, hidden, gate->hidden) + gate->second_bias[channel];
    return limited(number * gate->slope + gate->offset);
}

FMA void multiply_by_gates(float *place, const float *gates, size_t channels) {
    for (size_t at = 0; at < channels; at += LANES)
        store(place + at, channels - at, _mm256_mul_ps(load(place + at, channels - at), load(gates + at, channels - at)));
}
