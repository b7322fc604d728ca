/* Depthwise convolutions of one plane: see channels.c. */

#ifndef MXTRAIN_PLANE_H
#define MXTRAIN_PLANE_H

#include <stddef.h>

#include "channels/norm.h"

#define LANES 8 /* numbers at a time */

static inline size_t whole_lanes(size_t count) { return (count + LANES - 1) / LANES * LANES; }

/* The sizes of a convolution, and how its planes lie in scratch memory.

   A plane of the input has its padding around it, and its columns in `stride` phases: those that a column of weights
   meets, side by side. The plane of the output's gradient has `lead` rows and columns of zeros before it, and behind it
   as many as the input's last rows and columns need. Rows end in zeros up to whole lanes. */
typedef struct {
    size_t kernel, stride, pad, height, width, out_height, out_width;
    size_t rows, row, lead, gradient_rows, gradient_row, out_row, in_row;
} Geometry;

/* Fill in how planes lie; returns whether there are kernels for these sizes. */
int lay_out(Geometry *geometry);

static inline size_t padded_size(const Geometry *g) { return g->stride * g->rows * g->row; }
static inline size_t gradient_size(const Geometry *g) { return g->gradient_rows * g->gradient_row; }
static inline size_t out_size(const Geometry *g) { return g->out_height * g->out_row; }
static inline size_t in_size(const Geometry *g) { return g->height * g->in_row; }

/* Put row `at` of an input into a plane whose padding is zeros. */
void put_row(const Geometry *geometry, const float *row, size_t at, float *padded);

/* Write the convolution of a padded plane, rows of `out_row` numbers. What is behind a row's end means nothing. */
void convolve(const Geometry *geometry, const float *padded, const float *weights, float *out);

/* Write the convolution's norm and activation, rows of `out_width` numbers. */
void convolve_and_normalize(const Geometry *geometry, const float *padded, const float *weights, const ChannelNorm *norm,
                            float *out);

/* Write the gradient of the input, rows of `in_row` numbers that begin with `pad` ones of the padding. */
void convolve_back(const Geometry *geometry, const float *gradient, const float *weights, float *of_input);

/* Add the gradient of the weights. */
void add_gradient_of_weights(const Geometry *geometry, const float *padded, const float *gradient, double *of_weights);

#endif
