/* Sums of two arrays that are rounded on the way, with what a step asks of them, in one pass over memory. */

#ifndef MXTRAIN_ROUNDED_SUMS_H
#define MXTRAIN_ROUNDED_SUMS_H

#include <stddef.h>
#include <stdint.h>

/* A block of an array, as optim/sums/block_tables.py has them too: the sum of its squares and its largest absolute value,
   which are written; the exponent of its unit, its place in the array, its numbers, and how many bits of units are within
   reach. */
typedef struct {
    double square;
    float largest;
    int32_t exponent, start;
    int16_t length, reach;
} Block;

/* Replace these blocks of both arrays by their sum, each number rounded to its block's unit before. Units are those of the
   first array's blocks; what is written of a sum is the same for both. */
void add_rounded(float *one, float *other, Block *of_one, Block *of_other, size_t num_blocks);

#endif
