/* Attention that never writes all of its shares: see mxtrain/models/rewrites/own/attentions.py. */

#ifndef MXTRAIN_ATTENTION_H
#define MXTRAIN_ATTENTION_H

#include <stddef.h>

#include "tokens/dropout.h"

/* The sizes of an attention. Of a head, query, key and value lie side by side in `projected`, (length, batch,
   heads x 3 x width); what is added to its scores is in `added`, (masks, length, length): one for all, or for each,
   or none where `masks` is 0. Of its shares some are dropped where `drops`. */
typedef struct {
    size_t length, batch, heads, width, masks;
    const float *projected, *added;
    int drops;
    Dropout dropout;
} Attention;

/* The numbers of scratch memory that a thread needs. */
size_t attention_scratch(const Attention *attention);

/* Write what each token takes of others' values, (length, batch, heads x width). */
void attend(const Attention *attention, float *out, float *scratch, int num_threads);

/* Write the gradient of `projected` from that of what `attend` writes. */
void attend_backward(const Attention *attention, const float *of_out, float *of_projected, float *scratch,
                     int num_threads);

#endif
