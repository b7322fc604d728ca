/* Dense layers of nets that answer, whose weights are packed once. */

#ifndef MXTRAIN_PACKED_DENSE_H
#define MXTRAIN_PACKED_DENSE_H

#include <stddef.h>

/* A dense layer: what it takes (rows, inputs), and its packed weights. */
typedef struct {
    size_t rows, inputs, outputs;
    const float *data, *weights;
} PackedDense;

/* The numbers of packed weights, and these from weights (outputs, inputs) and a bias (outputs). */
size_t packed_size(size_t inputs, size_t outputs);
void pack(size_t inputs, size_t outputs, const float *weights, const float *bias, float *packed, int num_threads);

/* The numbers of scratch memory that all threads need. */
size_t packed_scratch(const PackedDense *dense, int num_threads);

/* Write (rows, outputs): products with the weights, plus the bias. */
void packed_forward(const PackedDense *dense, float *out, float *scratch, int num_threads);

#endif
