/* Exact sums of float32 numbers in float64: see mxtrain/optim/grid.py. */

#ifndef MXTRAIN_GRID_H
#define MXTRAIN_GRID_H

#include <stddef.h>
#include <stdint.h>

#define BLOCK_LENGTH 1024

static inline size_t num_blocks(size_t count) { return (count + BLOCK_LENGTH - 1) / BLOCK_LENGTH; }

/* Add `values` to `total`, each rounded to the nearest multiple of its block's unit, 2 to the power of an exponent.
   Infinity is added for a number above 2 to the power of `reach` units, and NaN for one that is not finite. */
void add_on_grid(double *total, const float *values, size_t count, const int32_t *exponents, int reach);

/* The largest absolute value of each block; one that is not finite where any of its numbers is not. */
void block_maxima(const float *values, size_t count, float *maxima);

#endif
