/* Rows of fields: see mxtrain/tables/sums.py. */

#ifndef MXTRAIN_FIELDS_H
#define MXTRAIN_FIELDS_H

#include <stddef.h>
#include <stdint.h>

/* How many samples, fields of each, weights and numbers of a vector in a row, which is that long. */
typedef struct {
    size_t samples, fields, weights, width;
} Fields;

/* The vectors of the row at each position, each sample's sum of rows and of squares. `squares_of_columns`: scratch
   memory, `width` numbers. */
void take_fields(const Fields *shape, const float *rows, const int64_t *positions, float *vectors, float *sums,
                 float *squares, float *squares_of_columns);

/* Add to the row at each position what the gradients of all these come to. */
void add_fields(const Fields *shape, float *rows, const int64_t *positions, const float *vectors,
                const float *of_vectors, const float *of_sums, const float *of_squares);

#endif
