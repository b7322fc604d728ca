/* The right matrix is put into panels of 16 columns, once; blocks of the left one, which stay in the cache of the second
   level, into panels of 6 rows by each thread. A block is a thread's, in an order that no number of threads changes. */

#include "products/dense.h"

#include <stdint.h>
#include <string.h>

#include "products/product.h"
#include "sizes.h"
#include "threads.h"

#define DEPTH 256  /* of a block */
#define HEIGHT 192 /* of a block of the left matrix at most: whole panels */
#define MOST_DEPTH 8192 /* of panels at a time */
#define CHUNK_ROWS 64   /* whose sums are added up in one go */
#define TILE 16         /* of a matrix that is turned over */
#define BLOCK_SIZE ((size_t)HEIGHT * DEPTH)
#define LINE 64 /* bytes */

/* The rows of a block: as many as the cache holds, and as many for each thread. */
static size_t height_of(size_t rows, int num_threads) {
    size_t rounds = (rows + HEIGHT * (size_t)num_threads - 1) / (HEIGHT * (size_t)num_threads);
    size_t blocks = rounds ? rounds * (size_t)num_threads : 1;
    size_t height = (rows + blocks - 1) / blocks;
    return height ? (height + ROWS - 1) / ROWS * ROWS : ROWS;
}

/* The numbers of scratch memory for panels of the right matrix, and for a block of the left one of each thread. */
static size_t product_scratch(size_t depth, size_t columns, int num_threads) {
    return panels_size(least(depth, MOST_DEPTH), columns) + BLOCK_SIZE * (size_t)num_threads;
}

/* Write or add the product of matrices (rows, depth) and (depth, columns), which may lie in any order, or add it to a
   `bias` of each row. */
static void multiply_at_once(Matrix left, Matrix right, size_t rows, size_t depth, size_t columns, const float *bias,
                             float *out, Into into, float *scratch, int num_threads) {
    if (!depth && !bias) memset(out, 0, rows * columns * sizeof *out);
    float *panels = scratch, *blocks = panels + panels_size(depth, columns);
    size_t count = num_panels(columns), tall = height_of(rows, num_threads);
#pragma omp parallel num_threads(num_threads)
    {
        float *block = blocks + (size_t)omp_get_thread_num() * BLOCK_SIZE;
#pragma omp for schedule(static)
        for (size_t panel = 0; panel < count; panel++) {
            Matrix from = {right.numbers + panel * PANEL * right.column, right.row, right.column};
            put_into_panels(from, depth, least(columns - panel * PANEL, PANEL), panels + panel * PANEL * depth);
        }
#pragma omp for schedule(dynamic)
        for (size_t row = 0; row < rows; row += tall) {
            size_t height = least(rows - row, tall);
            for (size_t at = row; bias && at < row + height; at++) memcpy(out + at * columns, bias, columns * sizeof *out);
            for (size_t from = 0; from < depth; from += DEPTH) {
                size_t deep = least(depth - from, DEPTH);
                Matrix part = {left.numbers + row * left.row + from * left.column, left.row, left.column};
                put_rows_into_panels(part, height, deep, block);
                multiply_panels(block, panels, depth, from, height, deep, columns, out + row * columns, columns,
                                from || bias ? ADD : into);
            }
        }
    }
}

static void multiply_large(Matrix left, Matrix right, size_t rows, size_t depth, size_t columns, const float *bias,
                           float *out, float *scratch, int num_threads) {
    for (size_t from = 0; from == 0 || from < depth; from += MOST_DEPTH) {
        Matrix of_left = {left.numbers + from * left.column, left.row, left.column};
        Matrix of_right = {right.numbers + from * right.row, right.row, right.column};
        multiply_at_once(of_left, of_right, rows, least(depth - from, MOST_DEPTH), columns, from ? NULL : bias, out,
                         from ? ADD : WRITE, scratch, num_threads);
    }
}

/* Write a matrix (rows, columns) as one (columns, rows). */
static void turn_over(const float *from, size_t rows, size_t columns, float *to, int num_threads) {
#pragma omp parallel for num_threads(num_threads) schedule(static)
    for (size_t first = 0; first < rows; first += TILE)
        for (size_t column = 0; column < columns; column++)
            for (size_t row = first; row < least(rows, first + TILE); row++)
                to[column * rows + row] = from[row * columns + column];
}

static size_t chunks_of(size_t rows) { return (rows + CHUNK_ROWS - 1) / CHUNK_ROWS; }

/* Write the sums of the columns of a matrix, by chunks of rows, which no number of threads changes. */
static void add_rows_up(const float *numbers, size_t rows, size_t columns, float *sums, float *scratch, int num_threads) {
    size_t chunks = chunks_of(rows);
#pragma omp parallel for num_threads(num_threads) schedule(static)
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        float *of_chunk = scratch + chunk * columns;
        memset(of_chunk, 0, columns * sizeof *of_chunk);
        for (size_t row = chunk * CHUNK_ROWS; row < least(rows, (chunk + 1) * CHUNK_ROWS); row++)
            for (size_t at = 0; at < columns; at++) of_chunk[at] += numbers[row * columns + at];
    }
    memset(sums, 0, columns * sizeof *sums);
    for (size_t chunk = 0; chunk < chunks; chunk++)
        for (size_t at = 0; at < columns; at++) sums[at] += scratch[chunk * columns + at];
}

static size_t most(size_t first, size_t second) { return first > second ? first : second; }

size_t dense_scratch(const Dense *dense, int num_threads) {
    size_t rows = dense->rows, inputs = dense->inputs, outputs = dense->outputs;
    size_t forward = product_scratch(inputs, outputs, num_threads);
    size_t of_data = product_scratch(outputs, inputs, num_threads);
    size_t of_weights = product_scratch(rows, outputs < inputs ? outputs : inputs, num_threads);
    size_t turned = outputs < inputs ? inputs * outputs : 0;
    size_t numbers = most(most(forward, of_data), most(of_weights + turned, chunks_of(rows) * outputs));
    return numbers * sizeof(float) + LINE;
}

static float *aligned(void *scratch) { return (float *)(((uintptr_t)scratch + LINE - 1) / LINE * LINE); }

void dense_forward(const Dense *dense, float *out, void *scratch, int num_threads) {
    Matrix data = {dense->data, dense->inputs, 1}, weights = {dense->weights, 1, dense->inputs};
    multiply_large(data, weights, dense->rows, dense->inputs, dense->outputs, dense->bias, out, aligned(scratch),
                   num_threads);
}

void dense_backward(const Dense *dense, const float *of_out, float *of_data, float *of_weights, float *of_bias, void *scratch,
                    int num_threads) {
    size_t rows = dense->rows, inputs = dense->inputs, outputs = dense->outputs;
    Matrix gradient = {of_out, outputs, 1}, turned = {of_out, 1, outputs};
    Matrix weights = {dense->weights, inputs, 1}, data = {dense->data, inputs, 1}, data_turned = {dense->data, 1, inputs};
    float *memory = aligned(scratch);
    multiply_large(gradient, weights, rows, outputs, inputs, NULL, of_data, memory, num_threads);
    if (outputs < inputs) { /* many rows and few columns: a block's part of the product stays in the cache */
        float *found = memory, *rest = memory + inputs * outputs;
        multiply_large(data_turned, gradient, inputs, rows, outputs, NULL, found, rest, num_threads);
        turn_over(found, inputs, outputs, of_weights, num_threads);
    } else {
        multiply_large(turned, data, outputs, rows, inputs, NULL, of_weights, memory, num_threads);
    }
    add_rows_up(of_out, rows, outputs, of_bias, memory, num_threads);
}
