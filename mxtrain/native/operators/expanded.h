/* The first half of a mobile net's block, whose weights stand still: a convolution of 1 x 1, its norm and activation, a
   depthwise convolution, its norm and activation. See mxtrain/models/rewrites/own/plain_layers.py. */

#ifndef MXTRAIN_EXPANDED_H
#define MXTRAIN_EXPANDED_H

#include "channels.h"
#include "pointwise.h"

typedef struct {
    Pointwise expansion; /* without gates, and nothing is added */
    Geometry geometry;
    const float *weights; /* (outputs of the expansion, kernel, kernel) */
    const Norm *behind;
} Expanded;

/* The numbers of scratch memory that a thread needs. */
size_t expanded_scratch(const Expanded *layer);

/* Write what comes out, and the means of its planes. */
void expanded_forward(const Expanded *layer, float *out, float *means, float *scratch, int num_threads);

#endif
