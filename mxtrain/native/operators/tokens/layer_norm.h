/* LayerNorm over the last axis, forward and backward. */

#ifndef MXTRAIN_LAYER_NORM_H
#define MXTRAIN_LAYER_NORM_H

#include <stddef.h>

typedef struct {
    size_t rows, width;
    const float *data, *gamma, *beta;
    float epsilon;
} LayerNorm;

/* Write each row less its mean, over its deviation, times `gamma` plus `beta`. */
void layer_norm(const LayerNorm *norm, float *out, int num_threads);

/* The numbers of scratch memory that a backward pass needs. */
size_t layer_norm_scratch(const LayerNorm *norm);

/* Write the gradients of the data, of `gamma` and of `beta`, where `of_out` is that of what `layer_norm` writes. */
void layer_norm_backward(const LayerNorm *norm, const float *of_out, float *of_data, float *of_gamma, float *of_beta,
                         float *scratch, int num_threads);

#endif
