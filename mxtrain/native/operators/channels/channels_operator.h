/* What operators with depthwise convolutions read from the attributes of their nodes. */

#ifndef MXTRAIN_CHANNELS_OPERATOR_H
#define MXTRAIN_CHANNELS_OPERATOR_H

#include "channels/channels.h"
#include "operator.h"

/* The keys of a norm behind the convolution, as `norm_of` takes them. */
extern const char *const KEYS_BEHIND[4];

/* A convolution of data of these sizes, which `lay_out` completes. */
Geometry geometry_of(Attributes attributes, const int64_t *sizes);

/* The norm whose gamma is input `gamma`, beta and running statistics the next ones; epsilon, momentum, activation and
   whether gamma is 1 are under these keys. */
Norm norm_of(const Call *call, int gamma, const char *const keys[4]);

#endif
