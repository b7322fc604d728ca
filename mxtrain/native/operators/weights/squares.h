/* An array's product with itself, and on the way the largest number of each block, as exact sums want them. */

#ifndef MXTRAIN_SQUARES_H
#define MXTRAIN_SQUARES_H

#include <stddef.h>

#define SQUARE_BLOCK 1024 /* as optim/sums/grid.py has them */

/* Return the sum of the squares, and write the largest absolute value of each block; both are not finite where a number
   is not. */
double square(const float *values, size_t count, float *maxima);

#endif
