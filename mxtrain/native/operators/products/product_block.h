/* Blocks of a product of matrices, whose sums stay in registers. */

#ifndef MXTRAIN_PRODUCT_BLOCK_H
#define MXTRAIN_PRODUCT_BLOCK_H

#include "products/product.h"
#include "vectors.h"

/* Memory that is read soon: some bytes of it are asked for with each column of a product, as the cache of the third level
   takes as long as many multiplications. */
typedef struct {
    const char *memory; /* NULL: nothing is asked for */
    size_t step;
} Ahead;

/* A part of a panel of `depth` rows, one of so many `parts`. */
static inline Ahead part_of_panel(const float *panel, size_t depth, size_t part, size_t parts) {
    size_t line = PANEL * sizeof *panel;
    return (Ahead){(const char *)panel + depth * line * part / parts, (line + parts - 1) / parts};
}

INLINE void ask_for(Ahead ahead, size_t column) {
    if (ahead.memory) _mm_prefetch(ahead.memory + column * ahead.step, _MM_HINT_T1);
}

/* Add the product of `count` rows, at most ROWS, which the compiler knows, and 16 columns, whose rows begin `step` numbers
   apart. */
INLINE void add_products_and_ask(const size_t count, Matrix left, const float *panel, size_t step, size_t depth, Ahead ahead,
                                 __m256 sums[ROWS][2]) {
    const float *number = left.numbers;
    for (size_t at = 0; at < depth; at++, panel += step, number += left.column) {
        ask_for(ahead, at);
        __m256 low = _mm256_loadu_ps(panel), high = _mm256_loadu_ps(panel + 8);
#pragma GCC unroll 6
        for (size_t row = 0; row < count; row++) {
            __m256 factor = _mm256_broadcast_ss(number + row * left.row);
            sums[row][0] = _mm256_fmadd_ps(factor, low, sums[row][0]);
            sums[row][1] = _mm256_fmadd_ps(factor, high, sums[row][1]);
        }
    }
}

INLINE void add_products(const size_t count, Matrix left, const float *panel, size_t step, size_t depth,
                         __m256 sums[ROWS][2]) {
    add_products_and_ask(count, left, panel, step, depth, (Ahead){NULL, 0}, sums);
}

#endif
