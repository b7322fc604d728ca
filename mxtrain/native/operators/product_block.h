/* Blocks of a product of matrices, whose sums stay in registers. */

#ifndef MXTRAIN_PRODUCT_BLOCK_H
#define MXTRAIN_PRODUCT_BLOCK_H

#include "product.h"
#include "vectors.h"

/* Add the product of `count` rows, at most ROWS, which the compiler knows, and 16 columns, whose rows begin `step` numbers
   apart. */
INLINE void add_products(const size_t count, Matrix left, const float *panel, size_t step, size_t depth,
                         __m256 sums[ROWS][2]) {
    const float *number = left.numbers;
    for (size_t at = 0; at < depth; at++, panel += step, number += left.column) {
        __m256 low = _mm256_loadu_ps(panel), high = _mm256_loadu_ps(panel + 8);
#pragma GCC unroll 6
        for (size_t row = 0; row < count; row++) {
            __m256 factor = _mm256_broadcast_ss(number + row * left.row);
            sums[row][0] = _mm256_fmadd_ps(factor, low, sums[row][0]);
            sums[row][1] = _mm256_fmadd_ps(factor, high, sums[row][1]);
        }
    }
}

#endif
