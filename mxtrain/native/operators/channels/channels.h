/* Layers that compute each channel by itself, as one: see mxtrain/models/rewrites/own/channel_runs.py. */

#ifndef MXTRAIN_CHANNELS_H
#define MXTRAIN_CHANNELS_H

#include "channels/norm.h"
#include "channels/plane.h"

/* A BatchNorm and the activation behind it, for all channels. */
typedef struct {
    const float *gamma, *beta;
    float *running_mean, *running_variance;
    float epsilon, momentum;
    Activation activation;
    int has_gamma; /* else it is 1 */
} Norm;

/* A depthwise convolution with the norm behind it, perhaps another before it; or a norm alone, whose `weights` are NULL.
   Arrays are (batch, channels, height, width). */
typedef struct {
    size_t batch, channels;
    Geometry geometry;
    const float *in, *weights;
    const Norm *before, *behind;
    int is_judging; /* norms are by running statistics; there is no backward pass */
} Run;

/* Where gradients go. */
typedef struct {
    float *in, *weights, *gamma_before, *beta_before, *gamma_behind, *beta_behind;
} RunGradients;

#define STATISTICS 4 /* of a channel: mean and inverse deviation, before and behind the convolution */

/* Return a channel's norm by its running statistics. */
ChannelNorm running_norm(const Norm *norm, size_t channel);

/* The numbers of scratch memory that a thread needs. */
size_t run_scratch(const Run *run);

/* Write what comes out, and the statistics of channels, (STATISTICS, channels), which the backward pass needs. */
void run_forward(const Run *run, float *out, float *statistics, float *scratch, int num_threads);

/* Write gradients from that of what comes out, and move the running statistics. */
void run_backward(const Run *run, const float *gradient, const float *statistics, const RunGradients *gradients,
                  float *scratch, int num_threads);

#endif
