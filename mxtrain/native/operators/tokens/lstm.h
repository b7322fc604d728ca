/* LSTM layers of a net that answers: see mxtrain/models/rewrites/own/lstms.py. */

#ifndef MXTRAIN_LSTM_H
#define MXTRAIN_LSTM_H

#include <stddef.h>

/* The sizes of layers that follow each other and begin with states of zeros. */
typedef struct {
    size_t steps, batch, inputs, hidden, layers;
} Lstm;

/* The numbers of MXNet's array of parameters, and of what `lstm_weights` makes of it; the batch and the steps do not count. */
size_t lstm_parameters_size(const Lstm *lstm);
size_t lstm_weights_size(const Lstm *lstm);

/* Write the weights in the order in which a forward pass reads them. */
void lstm_weights(const Lstm *lstm, const float *parameters, float *weights);

/* The numbers of scratch memory for so many threads. */
size_t lstm_scratch(const Lstm *lstm, int num_threads);

/* Write what the last layer passes on, (steps, batch, hidden), from data (steps, batch, inputs). */
void lstm_forward(const Lstm *lstm, const float *data, const float *weights, float *out, float *scratch, int num_threads);

#endif
