/* Rows of a block are the lanes of a sum, so that no lane is of a column that is not there. As many blocks at a time as a
   multiplication takes, for each of which the last one of the same sum has to be done. */

#include "few_columns.h"

#include "activated.h"

/* `blocks` and `count` are known to the compiler. A load takes the first numbers of the next row of weights too. */
INLINE void multiply_blocks(const size_t blocks, const size_t count, Activation activation, const float *weights, size_t depth,
                            const float *columns, size_t step, float *out) {
    __m256 sums[8][FEW];
    size_t size = ROWS * (depth + 1);
#pragma GCC unroll 8
    for (size_t block = 0; block < blocks; block++)
#pragma GCC unroll 4
        for (size_t column = 0; column < count; column++) sums[block][column] = _mm256_loadu_ps(weights + block * size);
    for (size_t at = 0; at < depth; at++, columns += step) {
        const float *row = weights + (at + 1) * ROWS;
#pragma GCC unroll 8
        for (size_t block = 0; block < blocks; block++) {
            __m256 numbers = _mm256_loadu_ps(row + block * size);
#pragma GCC unroll 4
            for (size_t column = 0; column < count; column++)
                sums[block][column] = _mm256_fmadd_ps(_mm256_broadcast_ss(columns + column), numbers, sums[block][column]);
        }
    }
#pragma GCC unroll 8
    for (size_t block = 0; block < blocks; block++)
#pragma GCC unroll 4
        for (size_t column = 0; column < count; column++) {
            float lanes[LANES];
            _mm256_storeu_ps(lanes, activated(activation, sums[block][column]));
            for (size_t row = 0; row < ROWS; row++) out[(block * ROWS + row) * FEW + column] = lanes[row];
        }
}

/* All blocks, `most` at a time and then one by one. */
INLINE void multiply_all(const size_t most, const size_t count, Activation activation, const float *weights, size_t depth,
                         size_t blocks, const float *columns, size_t step, float *out) {
    size_t size = ROWS * (depth + 1);
    for (; blocks >= most; blocks -= most, weights += most * size, out += most * ROWS * FEW)
        multiply_blocks(most, count, activation, weights, depth, columns, step, out);
    for (; blocks; blocks--, weights += size, out += ROWS * FEW)
        multiply_blocks(1, count, activation, weights, depth, columns, step, out);
}

FMA void multiply_few(Activation activation, const float *weights, size_t depth, size_t blocks, const float *columns,
                      size_t step, size_t count, float *out) {
    switch (count) {
    case 1: multiply_all(8, 1, activation, weights, depth, blocks, columns, step, out); break;
    case 2: multiply_all(4, 2, activation, weights, depth, blocks, columns, step, out); break;
    case 3: multiply_all(2, 3, activation, weights, depth, blocks, columns, step, out); break;
    default: multiply_all(2, FEW, activation, weights, depth, blocks, columns, step, out);
    }
}
