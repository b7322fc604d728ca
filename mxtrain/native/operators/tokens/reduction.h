/* Sums, means and the largest of numbers that lie apart: along an axis that is not the last. */

#ifndef MXTRAIN_REDUCTION_H
#define MXTRAIN_REDUCTION_H

#include <stddef.h>

typedef enum { SUM, MEAN, LARGEST } Kind;

/* An array (before, along, after), of which the middle axis goes. */
typedef struct {
    Kind kind;
    size_t before, along, after;
    const float *data;
} Reduction;

void reduce(const Reduction *reduction, float *out, int num_threads);

/* Write the gradient of the data, where `of_out` is that of `out`; of several largest numbers each has it. */
void reduce_backward(const Reduction *reduction, const float *out, const float *of_out, float *of_data, int num_threads);

#endif
