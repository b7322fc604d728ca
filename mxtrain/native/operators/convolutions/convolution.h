/* Convolutions with channels last, whose weights stand still, with the norm, the sum and the activation behind them: see
   mxtrain/models/rewrites/own/last_channels.py. */

#ifndef MXTRAIN_CONVOLUTION_H
#define MXTRAIN_CONVOLUTION_H

#include "channels/norm.h"
#include "products/product.h"

/* Arrays are (batch, height, width, channels). Kernels are squares. By Winograd's algorithm channels come in whole panels of
   PANEL. */
typedef struct {
    size_t batch, height, width, inputs, outputs, kernel, stride, pad;
    size_t tile; /* of Winograd's algorithm, for kernels of 3 with a stride of 1; 0: without it */
    const float *in, *weights; /* as `fold_convolution` writes them */
    const float *added;        /* to what comes out, before the activation; NULL: nothing */
    Activation activation;
} Convolution;

/* What weights are made of: a convolution's, (outputs, inputs, kernel, kernel), its bias, and a norm behind it by running
   statistics. What is not there is NULL; gamma is where it is 1. */
typedef struct {
    size_t outputs, inputs, kernel, tile;
    int is_plain; /* for an input in plain order */
    const float *weights, *bias, *gamma, *beta, *mean, *variance;
    float epsilon;
} ConvolutionWeights;

/* The products that make a place, or a tile, of an output of an input's. */
static inline size_t taps_of(size_t kernel, size_t tile) { return tile ? (tile + 2) * (tile + 2) : kernel * kernel; }

/* The numbers of a panel: what is added to its outputs, then the weights of each tap, each row of PANEL an input's; for an
   input in plain order those of each input, each row a tap's. Behind the last output are zeros. */
static inline size_t panel_size(size_t taps, size_t inputs) { return PANEL * (1 + taps * inputs); }

static inline size_t out_side(const Convolution *layer, size_t side) {
    return (side + 2 * layer->pad - layer->kernel) / layer->stride + 1;
}

void fold_convolution(const ConvolutionWeights *from, float *folded, int num_threads);

/* Compute a layer tap by tap, and by Winograd's algorithm; the bytes of scratch memory that this takes. */
size_t direct_scratch(const Convolution *layer, int num_threads);
void direct_forward(const Convolution *layer, float *out, void *scratch, int num_threads);
size_t winograd_scratch(const Convolution *layer, int num_threads);
void winograd_forward(const Convolution *layer, float *out, void *scratch, int num_threads);

/* The same, of an input in plain order, (batch, inputs, height, width), to which nothing is added. */
size_t plain_scratch(const Convolution *layer, int num_threads);
void plain_forward(const Convolution *layer, float *out, void *scratch, int num_threads);

/* Of such an input: lines with padding around them that `rows` rows of outputs are made of, those of all channels side by
   side, by their numbers; write them for a sample's rows from `first` on; and where the taps of each place read them. */
size_t lines_size(const Convolution *layer, size_t rows);
void put_lines(const Convolution *layer, size_t sample, size_t first, size_t rows, float *lines);
void point_at_lines(const Convolution *layer, size_t rows, const float *lines, const float **taps);

/* Write the transformed weights of the kernels of 3 x 3 that a panel's outputs have for one input, by tap and output. */
void transform_kernels(size_t tile, double kernels[][PANEL], double transformed[][PANEL]);

#endif
