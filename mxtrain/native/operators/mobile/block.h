/* Blocks of mobile nets that answer, with channels last: see mxtrain/models/rewrites/own/mobile_blocks.py. */

#ifndef MXTRAIN_BLOCK_H
#define MXTRAIN_BLOCK_H

#include "channels/norm.h"
#include "convolutions/convolution.h"
#include "mobile/gate.h"
#include "products/product.h"

/* A convolution of 1 x 1 to `wide` channels, where there is one, a depthwise convolution, a gate, where there is one, and a
   convolution of 1 x 1, with norms and activations; what goes in is added at the end where `is_residual`. Weights are as
   `fold_convolution` writes them, the depthwise ones as those of one input. `first` is NULL, or a convolution of pictures in
   plain order that makes the wide channels, by the weights `expansion`. */
typedef struct {
    size_t batch, height, width, inputs, wide, outputs, kernel, stride, pad;
    const float *in, *expansion, *depthwise, *projection;
    const Convolution *first;
    const Gate *gate;
    Activation expanded, convolved, projected;
    int is_residual;
} Block;

static inline size_t out_side_of(const Block *block, size_t side) {
    return (side + 2 * block->pad - block->kernel) / block->stride + 1;
}

/* The numbers of scratch memory that a block takes. */
size_t block_scratch(const Block *block, int num_threads);

void block_forward(const Block *block, float *out, float *scratch, int num_threads);

#endif
