/* Functions of the library that are no operators: for Python, and for MXNet's engine. */

#include <stdlib.h>

#include "operator.h"
#include "weights/rounded_sums.h"
#include "weights/squares.h"
#include "weights/update.h"

int num_threads = 1;

/* Set how many threads an operator computes with; returns how many it did. */
EXPORTED int mxtrain_set_threads(int count) {
    int before = num_threads;
    num_threads = count > 0 ? count : 1;
    return before;
}

/* Return a copy of an update for the engine, which `free` is for; NULL without memory. */
EXPORTED void *mxtrain_new_update(const Update *described) {
    Update *copy = malloc(sizeof *copy);
    if (copy) *copy = *described;
    return copy;
}

/* Make an update, as an operation of MXNet's engine, whose context it needs nothing of. */
EXPORTED void mxtrain_update(void *context, void *described) {
    (void)context;
    update(described, num_threads);
}

/* Write the squares of so many arrays, and the maxima of all their blocks. */
EXPORTED void mxtrain_squares(const float *const *arrays, const size_t *counts, size_t num_arrays, float *squares,
                              float *maxima) {
    for (size_t at = 0; at < num_arrays; at++) {
        squares[at] = (float)square(arrays[at], counts[at], maxima);
        maxima += (counts[at] + SQUARE_BLOCK - 1) / SQUARE_BLOCK;
    }
}

/* Add two arrays block by block. */
EXPORTED void mxtrain_add_rounded(float *one, float *other, Block *of_one, Block *of_other, size_t num_blocks) {
    add_rounded(one, other, of_one, of_other, num_blocks);
}
