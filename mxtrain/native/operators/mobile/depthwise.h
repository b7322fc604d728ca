/* Depthwise convolutions of rows with channels last. */

#ifndef MXTRAIN_DEPTHWISE_H
#define MXTRAIN_DEPTHWISE_H

#include "channels/norm.h"
#include "products/product.h"

#define MOST_TAPS_DOWN 5

/* Return whether there are kernels for these sizes. */
static inline int convolves_rows(size_t kernel, size_t stride) {
    return (kernel == 3 || kernel == 5) && (stride == 1 || stride == 2);
}

/* Write the activations of `width` places, each `step` behind the one before, of `channels` channels, a panel at most; up to
   whole vectors of eight is written. Each of the kernel's rows has PANEL numbers of a place. Weights are what is added and
   those of each tap, PANEL each. */
void convolve_rows(size_t kernel, size_t stride, Activation activation, const float *const *rows, const float *weights,
                   size_t width, size_t channels, float *out, size_t step);

#endif
