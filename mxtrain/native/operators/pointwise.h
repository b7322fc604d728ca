/* Convolutions of 1 x 1 whose weights stand still, with the norm before them folded in and what follows: see
   mxtrain/models/rewrites/own/plain_layers.py. */

#ifndef MXTRAIN_POINTWISE_H
#define MXTRAIN_POINTWISE_H

#include "norm.h"
#include "plane.h"
#include "product.h"

/* The weights of a convolution, (outputs, inputs), and the norm by running statistics that follows it. */
typedef struct {
    size_t outputs, inputs;
    const float *weights, *gamma, *beta, *mean, *variance; /* gamma is NULL where it is 1 */
    float epsilon;
} FoldedNorm;

/* Arrays are (batch, channels, plane) in plain order. */
typedef struct {
    size_t batch, inputs, outputs, plane;
    const float *in, *weights; /* as `fold_norm` writes them */
    const float *gates;        /* factors of the inputs of each sample; NULL: none */
    const float *added;        /* to what comes out behind the activation; NULL: nothing */
    Activation activation;
} Pointwise;

/* The numbers of weights, each row of a panel of ROWS outputs an input's; the first has what is added. Behind the last
   there are zeros, so that eight numbers can be loaded of any row. */
static inline size_t folded_size(size_t outputs, size_t inputs) {
    return (outputs + ROWS - 1) / ROWS * ROWS * (inputs + 1) + LANES - ROWS;
}

/* Write weights times the norm's scales, and its shifts. */
void fold_norm(const FoldedNorm *norm, float *folded);

/* The numbers of scratch memory that a thread needs. */
size_t pointwise_scratch(const Pointwise *layer);

void pointwise_forward(const Pointwise *layer, float *out, float *scratch, int num_threads);

#endif
