/* What becomes of numbers that a convolution with channels last has summed up. */

#ifndef MXTRAIN_FINISHED_H
#define MXTRAIN_FINISHED_H

#include "channels/activated.h"
#include "convolutions/convolution.h"

/* Write eight numbers at a place, with what is added to them, behind the activation. */
INLINE void finish(const Activation activation, const Convolution *layer, __m256 numbers, size_t place, float *out) {
    if (layer->added) numbers = _mm256_add_ps(numbers, _mm256_loadu_ps(layer->added + place));
    _mm256_storeu_ps(out + place, activated(activation, numbers));
}

#endif
