/* A block of rows, in panels of 6, is multiplied with panels of 16 columns and all inputs, so that sums begin with the bias
   and leave the registers once. Threads share blocks of rows, and where these are fewer, columns too. A number is added up
   in one order, so its bits are those of any threads and rows around it. */

#include "products/packed_dense.h"

#include <stdint.h>

#include "products/product_block.h"
#include "sizes.h"
#include "threads.h"

#define BLOCK_NUMBERS 131072     /* of a block of rows, for the cache of the second level */
#define MOST_ROWS 516            /* of a block */
#define FEWEST_STREAMED 4194304  /* outputs that no cache holds: writing them reads no memory before */
#define LINE (PANEL * sizeof(float))

size_t packed_size(size_t inputs, size_t outputs) { return panels_size(1 + inputs, outputs); }

void pack(size_t inputs, size_t outputs, const float *weights, const float *bias, float *packed, int num_threads) {
    float *panels = packed + panels_size(1, outputs);
    put_into_panels((Matrix){bias, outputs, 1}, 1, outputs, packed);
#pragma omp parallel for num_threads(num_threads) schedule(static)
    for (size_t column = 0; column < outputs; column += PANEL)
        put_into_panels((Matrix){weights + column * inputs, 1, inputs}, inputs, least(outputs - column, PANEL),
                        panels + column * inputs);
}

/* How a layer is cut: into blocks of rows, of `tall` at most, and each of these into parts of columns. */
typedef struct {
    size_t blocks, parts, tall;
} Cut;

static Cut cut_of(const PackedDense *dense, int num_threads) {
    size_t threads = (size_t)num_threads, most = least(BLOCK_NUMBERS / dense->inputs / ROWS * ROWS, MOST_ROWS);
    size_t tall = most ? most : ROWS, blocks = (dense->rows + tall - 1) / tall;
    Cut cut = {blocks, 1, tall};
    if (blocks >= threads)
        cut.blocks = least(rounded_up(blocks, threads), dense->rows); /* as many for each thread */
    else if (blocks)
        cut.parts = least((threads + blocks - 1) / blocks, num_panels(dense->outputs));
    return cut;
}

static size_t block_size(const PackedDense *dense, Cut cut) {
    return rounded_up(least(dense->rows, cut.tall), ROWS) * dense->inputs;
}

size_t packed_scratch(const PackedDense *dense, int num_threads) {
    return block_size(dense, cut_of(dense, num_threads)) * (size_t)num_threads;
}

/* A block of the product: `count` rows, at most ROWS, and `wide` panels of columns from `column` on, which the compiler
   knows. */
INLINE void answer_block(const size_t count, const size_t wide, const PackedDense *dense, const float *left, size_t column,
                         Ahead ahead, int is_streamed, float *out) {
    size_t inputs = dense->inputs, outputs = dense->outputs;
    const float *bias = dense->weights + column, *panel = dense->weights + panels_size(1, outputs) + column * inputs;
    __m256 sums[ROWS][8];
#pragma GCC unroll 6
    for (size_t row = 0; row < count; row++)
#pragma GCC unroll 8
        for (size_t half = 0; half < 2 * wide; half++) sums[row][half] = _mm256_loadu_ps(bias + 8 * half);
    for (size_t at = 0; at < inputs; at++, panel += PANEL, left += ROWS) {
        ask_for(ahead, at);
#pragma GCC unroll 4
        for (size_t each = 0; each < wide; each++) {
            const float *numbers = panel + each * inputs * PANEL;
            __m256 low = _mm256_loadu_ps(numbers), high = _mm256_loadu_ps(numbers + 8);
#pragma GCC unroll 6
            for (size_t row = 0; row < count; row++) {
                __m256 factor = _mm256_broadcast_ss(left + row);
                sums[row][2 * each] = _mm256_fmadd_ps(factor, low, sums[row][2 * each]);
                sums[row][2 * each + 1] = _mm256_fmadd_ps(factor, high, sums[row][2 * each + 1]);
            }
        }
    }
#pragma GCC unroll 6
    for (size_t row = 0; row < count; row++, out += outputs)
#pragma GCC unroll 8
        for (size_t half = 0; half < 2 * wide; half++) {
            if (is_streamed)
                _mm256_stream_ps(out + column + 8 * half, sums[row][half]);
            else if (column + 8 * half < outputs)
                store(out + column + 8 * half, outputs - column - 8 * half, sums[row][half]);
        }
}

/* The product of a panel of `count` rows and of the columns from `column` to `end`, several panels of them at a time: few
   rows would wait for each sum. */
INLINE void answer_columns(const size_t count, const size_t wide, const PackedDense *dense, const float *left, size_t column,
                           size_t end, Ahead ahead, int is_streamed, float *out) {
    for (; column + (wide - 1) * PANEL < end; column += wide * PANEL)
        answer_block(count, wide, dense, left, column, ahead, is_streamed, out);
    for (; column < end; column += PANEL) answer_block(count, 1, dense, left, column, ahead, is_streamed, out);
}

FMA static void answer_rows(size_t count, const PackedDense *dense, const float *left, size_t column, size_t end,
                            Ahead ahead, int is_streamed, float *out) {
    switch (count) {
    case 1: answer_columns(1, 4, dense, left, column, end, ahead, is_streamed, out); break;
    case 2: answer_columns(2, 2, dense, left, column, end, ahead, is_streamed, out); break;
    case 3: answer_columns(3, 2, dense, left, column, end, ahead, is_streamed, out); break;
    case 4: answer_columns(4, 1, dense, left, column, end, ahead, is_streamed, out); break;
    case 5: answer_columns(5, 1, dense, left, column, end, ahead, is_streamed, out); break;
    default: answer_columns(6, 1, dense, left, column, end, ahead, is_streamed, out);
    }
}

/* Columns from the panel `first` to `end` of so many rows: a panel of weights stays in the cache for all rows where there
   are several panels of these. */
static void answer_part(const PackedDense *dense, size_t rows, size_t first, size_t end, const float *block, int is_streamed,
                        float *out) {
    size_t inputs = dense->inputs, panels = row_panels(rows), step = panels > 1 ? 1 : end - first;
    const float *weights = dense->weights + panels_size(1, dense->outputs);
    for (size_t panel = first; panel < end; panel += step)
        for (size_t at = 0; at < panels; at++) {
            size_t row = first_of_panel(rows, at), count = first_of_panel(rows, at + 1) - row;
            Ahead ahead = part_of_panel(weights + (panel + step) * PANEL * inputs, inputs, at, panels);
            answer_rows(count, dense, block + at * ROWS * inputs, panel * PANEL, (panel + step) * PANEL, ahead, is_streamed,
                        out + row * dense->outputs);
        }
}

void packed_forward(const PackedDense *dense, float *out, float *scratch, int num_threads) {
    Cut cut = cut_of(dense, num_threads);
    size_t rows = dense->rows, inputs = dense->inputs, outputs = dense->outputs, panels = num_panels(outputs);
    int are_lines = outputs % PANEL == 0 && (uintptr_t)out % LINE == 0;
    int is_streamed = are_lines && rows * outputs >= FEWEST_STREAMED;
#pragma omp parallel num_threads(num_threads)
    {
        float *block = scratch + (size_t)omp_get_thread_num() * block_size(dense, cut);
#pragma omp for schedule(dynamic)
        for (size_t place = 0; place < cut.blocks * cut.parts; place++) {
            size_t number = place / cut.parts, part = place % cut.parts;
            size_t row = number * rows / cut.blocks, count = (number + 1) * rows / cut.blocks - row;
            put_rows_into_panels((Matrix){dense->data + row * inputs, inputs, 1}, count, inputs, block);
            answer_part(dense, count, panels * part / cut.parts, panels * (part + 1) / cut.parts, block, is_streamed,
                        out + row * outputs);
        }
        if (is_streamed) _mm_sfence();
    }
}
