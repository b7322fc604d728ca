/* Memory that is asked for before it is needed. */

#ifndef MXTRAIN_FETCH_H
#define MXTRAIN_FETCH_H

#include <stddef.h>

#define AHEAD 16 /* rows before it is needed */

/* Ask for the memory of a row, which begins and ends anywhere in lines of the cache; of no array nothing. */
static inline void fetch_row(const float *array, size_t place, size_t width) {
    enum { LINE = 64 / sizeof *array };
    if (!array) return;
    const float *row = array + place * width;
    for (size_t at = 0; at < width; at += LINE) __builtin_prefetch(row + at, 1);
    __builtin_prefetch(row + width - 1, 1);
}

#endif
