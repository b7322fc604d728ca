/* Rows of weights are read once for all samples. A mean, and each number behind it, is one thread's. */

#include "gate.h"

#include "threads.h"
#include "vectors.h"

FMA float mean_of(const float *numbers, size_t count) {
    __m256 even = _mm256_setzero_ps(), odd = even;
    add_row(numbers, count, &even, &odd);
    return (float)((exact_sum_of(even) + exact_sum_of(odd)) / (double)count);
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

size_t gate_scratch(const Gate *gate) { return gate->batch * (gate->channels + gate->hidden); }

/* What is no number stays none. */
static float limited(float number) { return number < 0 ? 0 : number > 1 ? 1 : number; }

void gate_forward(const Gate *gate, float *out, float *scratch, int num_threads) {
    size_t channels = gate->channels, hidden = gate->hidden;
    float *means = scratch, *behind_first = means + gate->batch * channels;
    int threads = threads_for(gate->batch * channels * gate->plane, num_threads);
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (size_t each = 0; each < gate->batch * channels; each++)
            means[each] = mean_of(gate->in + each * gate->plane, gate->plane);
#pragma omp for schedule(static)
        for (size_t row = 0; row < hidden; row++)
            for (size_t sample = 0; sample < gate->batch; sample++) {
                float number = product_of(gate->first + row * channels, means + sample * channels, channels) + gate->first_bias[row];
                behind_first[sample * hidden + row] = number < 0 ? 0 : number;
            }
#pragma omp for schedule(static)
        for (size_t row = 0; row < channels; row++)
            for (size_t sample = 0; sample < gate->batch; sample++) {
                float number = product_of(gate->second + row * hidden, behind_first + sample * hidden, hidden);
                out[sample * channels + row] = limited((number + gate->second_bias[row]) * gate->slope + gate->offset);
            }
    }
}
