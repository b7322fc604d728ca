/* Exact sums of float32 numbers in float64: see mxtrain/optim/grid.py. */

#ifndef MXTRAIN_GRID_H
#define MXTRAIN_GRID_H

#include <stddef.h>
#include <stdint.h>

#define BLOCK_LENGTH 1024

static inline size_t num_blocks(size_t count) { return (count + BLOCK_LENGTH - 1) / BLOCK_LENGTH; }

/* The addition of a gradient of `count` numbers to a total. The latter is float64, or where no other gradient is added
   float32: on a grid a single one has no more digits. One of the two pointers is NULL, or both where a single gradient is
   rounded where it is, and that is its total. */
typedef struct {
    double *total;
    float *single;
    float *values;
    size_t count;
    const int32_t *exponents; /* of the units of its blocks */
    int reach;
    int is_first; /* whatever the total holds counts as zero */
    float *maxima; /* of the blocks of the total, which also takes the place of the gradient; NULL: neither */
} Addition;

/* Add numbers, each rounded to the nearest multiple of its block's unit, 2 to the power of an exponent. Infinity is added
   for a number above 2 to the power of `reach` units, and NaN for one that is not finite. */
void add_on_grid(const Addition *addition);

/* The same as an operation of MXNet's engine, whose context it needs nothing of. */
void add_in_engine(void *context, void *addition);

/* The largest absolute value of each block; one that is not finite where any of its numbers is not. */
void block_maxima(const float *values, size_t count, float *maxima);

#endif
