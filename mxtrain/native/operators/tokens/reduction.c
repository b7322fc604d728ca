/* Blocks of columns are reduced row by row, as they lie in memory. The compiler makes vectors of the loops. */

#include "tokens/reduction.h"

#define COLUMNS 256 /* of a block */

static void add_block(const float *begin, size_t rows, size_t stride, size_t count, float divisor, float *out) {
    double sums[COLUMNS] = {0};
    for (size_t row = 0; row < rows; row++)
        for (size_t at = 0; at < count; at++) sums[at] += begin[row * stride + at];
    for (size_t at = 0; at < count; at++) out[at] = (float)sums[at] / divisor;
}

/* What is no number is the largest. */
static void largest_of_block(const float *begin, size_t rows, size_t stride, size_t count, float *out) {
    float most[COLUMNS];
    for (size_t at = 0; at < count; at++) most[at] = begin[at];
    for (size_t row = 1; row < rows; row++)
        for (size_t at = 0; at < count; at++) {
            float each = begin[row * stride + at];
            most[at] = each > most[at] || each != each ? each : most[at];
        }
    for (size_t at = 0; at < count; at++) out[at] = most[at];
}

static float divisor_of(const Reduction *reduction) { return reduction->kind == MEAN ? (float)reduction->along : 1; }

static size_t num_blocks(const Reduction *reduction) { return (reduction->after + COLUMNS - 1) / COLUMNS; }

static size_t columns_from(const Reduction *reduction, size_t first) {
    return reduction->after - first < COLUMNS ? reduction->after - first : COLUMNS;
}

void reduce(const Reduction *reduction, float *out, int num_threads) {
    size_t blocks = num_blocks(reduction), stride = reduction->after, rows = reduction->along;
#pragma omp parallel for num_threads(num_threads) schedule(static)
    for (size_t place = 0; place < reduction->before * blocks; place++) {
        size_t part = place / blocks, first = place % blocks * COLUMNS, count = columns_from(reduction, first);
        const float *begin = reduction->data + part * rows * stride + first;
        float *to = out + part * stride + first;
        if (reduction->kind != LARGEST)
            add_block(begin, rows, stride, count, divisor_of(reduction), to);
        else
            largest_of_block(begin, rows, stride, count, to);
    }
}

void reduce_backward(const Reduction *reduction, const float *out, const float *of_out, float *of_data, int num_threads) {
    size_t stride = reduction->after, rows = reduction->along;
    float divisor = divisor_of(reduction);
#pragma omp parallel for num_threads(num_threads) schedule(static)
    for (size_t place = 0; place < reduction->before * rows; place++) {
        const float *row = reduction->data + place * stride, *most = out + place / rows * stride;
        const float *gradient = of_out + place / rows * stride;
        float *to = of_data + place * stride;
        if (reduction->kind != LARGEST)
            for (size_t at = 0; at < stride; at++) to[at] = gradient[at] / divisor;
        else
            for (size_t at = 0; at < stride; at++) to[at] = row[at] == most[at] ? gradient[at] : 0;
    }
}
