/* A gate of squeeze and excitation: a number of each channel from the means of all. */

#ifndef MXTRAIN_GATE_H
#define MXTRAIN_GATE_H

#include <stddef.h>

/* min(max(slope x second(max(first(means), 0)) + offset, 0), 1), of dense layers with biases. */
typedef struct {
    size_t batch, channels, plane, hidden;
    const float *in, *first, *first_bias, *second, *second_bias; /* weights are (hidden, channels), (channels, hidden) */
    float slope, offset;
} Gate;

/* Return the mean of numbers. */
float mean_of(const float *numbers, size_t count);

/* The numbers of scratch memory that all threads need. */
size_t gate_scratch(const Gate *gate);

/* Write the gates, (batch, channels). */
void gate_forward(const Gate *gate, float *out, float *scratch, int num_threads);

#endif
