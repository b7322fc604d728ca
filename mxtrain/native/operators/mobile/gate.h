/* A gate of squeeze and excitation: a number of each channel from the means of all. */

#ifndef MXTRAIN_GATE_H
#define MXTRAIN_GATE_H

#include <stddef.h>

/* min(max(slope x second(max(first(means), 0)) + offset, 0), 1), of dense layers with biases. */
typedef struct {
    size_t channels, hidden;
    const float *first, *first_bias, *second, *second_bias; /* weights are (hidden, channels), (channels, hidden) */
    float slope, offset;
} Gate;

/* Write the means of channels of `count` places, each `step` numbers behind the one before; whole vectors of eight. */
void mean_channels(const float *in, size_t count, size_t step, size_t channels, float *means);

/* A number of the first layer, and a gate: of a picture's means, and of the first layer's numbers. */
float hidden_number(const Gate *gate, const float *means, size_t at);
float gate_of(const Gate *gate, const float *hidden, size_t channel);

/* Multiply the channels of a place by their gates. */
void multiply_by_gates(float *place, const float *gates, size_t channels);

#endif
