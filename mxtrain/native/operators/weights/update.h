/* Updates of weights in one pass, each number read and written once, to the bits of MXNet's own operators. */

#ifndef MXTRAIN_UPDATE_H
#define MXTRAIN_UPDATE_H

#include <stddef.h>

enum { SGD, SGD_WITH_MOMENTUM, ADAM };

/* An array of weights, its gradient, and the optimizer's arrays for it: its momentum, or the running means of gradients
   and of their squares, or NULL. Weights are first multiplied by `shrink`; `clip` is of a gradient's numbers, and
   negative for none; `beta1` is a momentum too. kvstore/updater.py has the same fields. */
typedef struct {
    float *weight, *first, *second;
    const float *gradient;
    size_t count;
    int rule;
    float rate, decay, shrink, rescale, clip, beta1, beta2, epsilon;
} Update;

/* Move the weights; which thread does what changes no bit. */
void update(const Update *update, int num_threads);

#endif
