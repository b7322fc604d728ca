/* Sizes of blocks: the lesser of two, and one rounded up. */

#ifndef MXTRAIN_SIZES_H
#define MXTRAIN_SIZES_H

#include <stddef.h>

static inline size_t least(size_t first, size_t second) { return first < second ? first : second; }

static inline size_t rounded_up(size_t count, size_t to) { return (count + to - 1) / to * to; }

#endif
