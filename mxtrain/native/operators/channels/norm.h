/* Norms of a channel and what follows them, plane by plane: see channels.c. */

#ifndef MXTRAIN_NORM_H
#define MXTRAIN_NORM_H

#include <stddef.h>

/* What follows a norm: the number itself, max(it, 0), that and at most 6, it times min(max(it + 3, 0), 6) / 6. */
typedef enum { IDENTITY, RELU, RELU6, HARD_SWISH } Activation;

/* Return an activation by the name that graphs have for it. */
Activation activation_of(const char *name);

/* A plane: `height` rows of `width` numbers, `stride` from one to the next. */
typedef struct {
    float *numbers;
    size_t height, width, stride;
} Plane;

/* How many numbers there were, their mean, and the sum of their squared differences from it. */
typedef struct {
    double count, mean, squares;
} Moments;

/* The norm of a channel: its number is activation((number - mean) x scale + shift). */
typedef struct {
    float mean, inverse, scale, shift;
    Activation activation;
} ChannelNorm;

/* The sums of a channel's gradients, and of their products with the normalised numbers. */
typedef struct {
    double gradients, products;
} GradientSums;

/* Add the numbers of a plane. */
void add_moments(Plane plane, Moments *moments);

/* Write a row, and zeros behind it up to whole lanes. */
void normalize_row(const float *row, size_t width, const ChannelNorm *norm, float *out);

/* Write a plane. */
void normalize(Plane plane, const ChannelNorm *norm, Plane out);

/* Add the gradients before the activation, of `plane` from those behind it, and write them where `out` has numbers. */
void add_gradients(Plane plane, Plane gradient, const ChannelNorm *norm, Plane out, GradientSums *sums);

/* Write the gradients of what is normalised from those behind its activation and from the sums of `count` numbers. Rows
   end in zeros up to whole lanes where `is_padded`. */
void normalize_back(Plane plane, Plane gradient, const ChannelNorm *norm, const GradientSums *sums, double count,
                    Plane out, int is_padded);

#endif
