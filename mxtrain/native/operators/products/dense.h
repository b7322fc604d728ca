/* Dense layers, forward and backward, as products of large matrices. */

#ifndef MXTRAIN_DENSE_H
#define MXTRAIN_DENSE_H

#include <stddef.h>

/* A dense layer: what it takes (rows, inputs), its weights (outputs, inputs) and its bias (outputs). */
typedef struct {
    size_t rows, inputs, outputs;
    const float *data, *weights, *bias;
} Dense;

/* The bytes of scratch memory that both passes need. */
size_t dense_scratch(const Dense *dense, int num_threads);

/* Write (rows, outputs): products with the weights, plus the bias. */
void dense_forward(const Dense *dense, float *out, void *scratch, int num_threads);

/* Write the gradients of the data, the weights and the bias, where `of_out` is that of `out`. */
void dense_backward(const Dense *dense, const float *of_out, float *of_data, float *of_weights, float *of_bias, void *scratch,
                    int num_threads);

#endif
