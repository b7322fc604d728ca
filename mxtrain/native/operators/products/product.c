/* The product is made in blocks of up to 6 rows and 16 columns, which stay in registers. */

#include "products/product.h"

#include <string.h>

#include "products/product_block.h"
#include "sizes.h"

void put_into_panels(Matrix from, size_t rows, size_t columns, float *panels) {
    for (size_t first = 0; first < columns; first += PANEL, panels += rows * PANEL) {
        size_t count = columns - first < PANEL ? columns - first : PANEL;
        const float *begin = from.numbers + first * from.column;
        if (from.column == 1) {
            for (size_t row = 0; row < rows; row++) {
                memcpy(panels + row * PANEL, begin + row * from.row, count * sizeof *panels);
                memset(panels + row * PANEL + count, 0, (PANEL - count) * sizeof *panels);
            }
            continue;
        }
        for (size_t at = 0; at < PANEL; at++)
            for (size_t row = 0; row < rows; row++)
                panels[row * PANEL + at] = at < count ? begin[at * from.column + row * from.row] : 0;
    }
}

void put_rows_into_panels(Matrix from, size_t rows, size_t depth, float *panels) {
    size_t count = row_panels(rows);
    if (from.row == 1) /* what lies side by side, before the next column far away */
        for (size_t at = 0; at < depth; at++)
            for (size_t panel = 0; panel < count; panel++) {
                size_t first = first_of_panel(rows, panel);
                float *to = panels + (panel * depth + at) * ROWS;
                const float *begin = from.numbers + at * from.column + first;
                if (first + ROWS <= rows) /* a size that the compiler knows; what is too much is not read */
                    memcpy(to, begin, ROWS * sizeof *to);
                else
                    memcpy(to, begin, (rows - first) * sizeof *to);
            }
    else
        for (size_t panel = 0; panel < count; panel++, panels += depth * ROWS)
            for (size_t first = first_of_panel(rows, panel), row = first; row < first_of_panel(rows, panel + 1); row++)
                for (size_t at = 0; at < depth; at++)
                    panels[at * ROWS + row - first] = from.numbers[row * from.row + at * from.column];
}

/* A block of the product: `count` rows, at most ROWS, which the compiler knows, and up to 16 columns. */
INLINE void multiply_block(const size_t count, Matrix left, const float *panel, size_t depth, Ahead ahead, size_t columns,
                           float *out, size_t stride, Into into) {
    __m256 sums[ROWS][2];
#pragma GCC unroll 6
    for (size_t row = 0; row < count; row++) sums[row][0] = sums[row][1] = _mm256_setzero_ps();
    add_products_and_ask(count, left, panel, PANEL, depth, ahead, sums);
#pragma GCC unroll 6
    for (size_t row = 0; row < count; row++, out += stride) {
        if (columns == PANEL) {
            for (size_t half = 0; half < 2; half++) {
                __m256 sum = sums[row][half];
                if (into == ADD) sum = _mm256_add_ps(_mm256_loadu_ps(out + 8 * half), sum);
                _mm256_storeu_ps(out + 8 * half, sum);
            }
            continue;
        }
        float all[PANEL];
        _mm256_storeu_ps(all, sums[row][0]);
        _mm256_storeu_ps(all + 8, sums[row][1]);
        for (size_t at = 0; at < columns; at++) out[at] = into == ADD ? out[at] + all[at] : all[at];
    }
}

/* The product of a panel and of `count` rows, at most ROWS. */
INLINE void multiply_rows(size_t count, Matrix left, const float *panel, size_t depth, Ahead ahead, size_t columns,
                          float *out, size_t stride, Into into) {
    switch (count) {
    case 1: multiply_block(1, left, panel, depth, ahead, columns, out, stride, into); break;
    case 2: multiply_block(2, left, panel, depth, ahead, columns, out, stride, into); break;
    case 3: multiply_block(3, left, panel, depth, ahead, columns, out, stride, into); break;
    case 4: multiply_block(4, left, panel, depth, ahead, columns, out, stride, into); break;
    case 5: multiply_block(5, left, panel, depth, ahead, columns, out, stride, into); break;
    default: multiply_block(6, left, panel, depth, ahead, columns, out, stride, into);
    }
}

FMA void multiply(Matrix left, const float *panels, size_t panel_rows, size_t first_row, size_t rows, size_t depth,
                  size_t columns, float *out, size_t stride, Into into) {
    for (size_t first = 0; first < columns; first += PANEL) {
        const float *panel = panels + first * panel_rows + first_row * PANEL;
        Matrix block = left;
        for (size_t row = 0; row < rows; row += ROWS, block.numbers += ROWS * left.row)
            multiply_rows(least(rows - row, ROWS), block, panel, depth, (Ahead){NULL, 0}, least(columns - first, PANEL),
                          out + row * stride + first, stride, into);
    }
}

/* The product of one row, with four panels at a time: one would wait for each sum. */
FMA static size_t multiply_row(Matrix left, const float *panels, size_t panel_rows, size_t depth, size_t columns, float *out,
                               Into into) {
    size_t first = 0;
    for (; first + 4 * PANEL <= columns; first += 4 * PANEL, panels += 4 * PANEL * panel_rows) {
        __m256 sums[4][2];
#pragma GCC unroll 4
        for (size_t at = 0; at < 4; at++) sums[at][0] = sums[at][1] = _mm256_setzero_ps();
        for (size_t row = 0; row < depth; row++) {
            __m256 factor = _mm256_broadcast_ss(left.numbers + row * left.column);
#pragma GCC unroll 4
            for (size_t at = 0; at < 4; at++) {
                const float *numbers = panels + (at * panel_rows + row) * PANEL;
                sums[at][0] = _mm256_fmadd_ps(factor, _mm256_loadu_ps(numbers), sums[at][0]);
                sums[at][1] = _mm256_fmadd_ps(factor, _mm256_loadu_ps(numbers + 8), sums[at][1]);
            }
        }
#pragma GCC unroll 4
        for (size_t at = 0; at < 4; at++)
#pragma GCC unroll 2
            for (size_t half = 0; half < 2; half++) {
                float *to = out + first + at * PANEL + half * 8;
                __m256 sum = sums[at][half];
                _mm256_storeu_ps(to, into == ADD ? _mm256_add_ps(_mm256_loadu_ps(to), sum) : sum);
            }
    }
    return first;
}

FMA void multiply_panels(const float *left, const float *panels, size_t panel_rows, size_t first_row, size_t rows,
                         size_t depth, size_t columns, float *out, size_t stride, Into into) {
    Matrix block = {left, 1, ROWS};
    size_t first = rows == 1 ? multiply_row(block, panels + first_row * PANEL, panel_rows, depth, columns, out, into) : 0;
    for (; first < columns; first += PANEL) {
        const float *panel = panels + first * panel_rows + first_row * PANEL;
        block.numbers = left;
        for (size_t at = 0; at < row_panels(rows); at++, block.numbers += ROWS * depth) {
            size_t row = first_of_panel(rows, at), count = first_of_panel(rows, at + 1) - row;
            Ahead ahead = part_of_panel(panel + panel_rows * PANEL, depth, at, row_panels(rows));
            multiply_rows(count, block, panel, depth, ahead, least(columns - first, PANEL), out + row * stride + first, stride,
                          into);
        }
    }
}
