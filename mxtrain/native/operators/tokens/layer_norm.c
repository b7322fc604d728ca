/* A row's sums are made while it lies in the cache, for the backward pass anew. The gradients of the weights are sums over
   rows: those of chunks of rows, which are as many whatever the threads, added up one after the other. */

#include "tokens/layer_norm.h"

#include <math.h>
#include <string.h>

#include "threads.h"
#include "vectors.h"

#define MOST_CHUNKS 64
#define FEWEST_ROWS 16 /* of a chunk */
#define MOST_SUMS (1 << 24)

/* A row's mean, and one over its deviation. */
typedef struct {
    __m256 mean, inverse;
} Spread;

/* The sum of differences from the mean, which is 0 but for rounding, makes both more exact. */
FMA static inline Spread spread_of(const float *row, size_t width, float epsilon) {
    __m256 sums = _mm256_setzero_ps(), more = sums, squares = sums;
    size_t at = 0;
    for (; at + 16 <= width; at += 16) {
        sums = _mm256_add_ps(sums, _mm256_loadu_ps(row + at));
        more = _mm256_add_ps(more, _mm256_loadu_ps(row + at + 8));
    }
    for (; at < width; at += 8) sums = _mm256_add_ps(sums, load(row + at, width - at));
    float mean = sum_of(_mm256_add_ps(sums, more)) / (float)width;
    __m256 means = _mm256_set1_ps(mean);
    sums = _mm256_setzero_ps();
    for (at = 0; at < width; at += 8) {
        __m256 less = _mm256_sub_ps(load_or(row + at, width - at, means), means);
        sums = _mm256_add_ps(sums, less);
        squares = _mm256_fmadd_ps(less, less, squares);
    }
    float rest = sum_of(sums) / (float)width, variance = sum_of(squares) / (float)width - rest * rest;
    /* What is no number is not less than 0, and stays none. */
    float inverse = 1 / sqrtf((variance < 0 ? 0 : variance) + epsilon);
    Spread spread = {_mm256_set1_ps(mean + rest), _mm256_set1_ps(inverse)};
    return spread;
}

FMA static void norm_row(const LayerNorm *norm, const float *row, float *out) {
    Spread spread = spread_of(row, norm->width, norm->epsilon);
    for (size_t at = 0; at < norm->width; at += 8) {
        size_t count = norm->width - at;
        __m256 normed = _mm256_mul_ps(_mm256_sub_ps(load(row + at, count), spread.mean), spread.inverse);
        store(out + at, count, _mm256_fmadd_ps(normed, load(norm->gamma + at, count), load(norm->beta + at, count)));
    }
}

/* Write the gradient of a row, and add what it has of those of the weights. */
FMA static void norm_row_backward(const LayerNorm *norm, const float *row, const float *of_out, float *of_row,
                                  float *of_gamma, float *of_beta) {
    size_t width = norm->width;
    Spread spread = spread_of(row, width, norm->epsilon);
    __m256 sums = _mm256_setzero_ps(), along = sums;
    for (size_t at = 0; at < width; at += 8) {
        size_t count = width - at;
        __m256 outer = load(of_out + at, count), inner = _mm256_mul_ps(outer, load(norm->gamma + at, count));
        __m256 normed = _mm256_mul_ps(_mm256_sub_ps(load(row + at, count), spread.mean), spread.inverse);
        sums = _mm256_add_ps(sums, inner);
        along = _mm256_fmadd_ps(inner, normed, along);
        store(of_gamma + at, count, _mm256_fmadd_ps(outer, normed, load(of_gamma + at, count)));
        store(of_beta + at, count, _mm256_add_ps(outer, load(of_beta + at, count)));
    }
    __m256 mean = _mm256_set1_ps(sum_of(sums) / (float)width), slope = _mm256_set1_ps(sum_of(along) / (float)width);
    for (size_t at = 0; at < width; at += 8) {
        size_t count = width - at;
        __m256 inner = _mm256_mul_ps(load(of_out + at, count), load(norm->gamma + at, count));
        __m256 normed = _mm256_mul_ps(_mm256_sub_ps(load(row + at, count), spread.mean), spread.inverse);
        __m256 rest = _mm256_fnmadd_ps(normed, slope, _mm256_sub_ps(inner, mean));
        store(of_row + at, count, _mm256_mul_ps(rest, spread.inverse));
    }
}

void layer_norm(const LayerNorm *norm, float *out, int num_threads) {
#pragma omp parallel for num_threads(threads_for(norm->rows * norm->width, num_threads)) schedule(static)
    for (size_t row = 0; row < norm->rows; row++)
        norm_row(norm, norm->data + row * norm->width, out + row * norm->width);
}

static size_t rows_of_chunk(const LayerNorm *norm) {
    size_t chunks = MOST_SUMS / norm->width;
    if (chunks > MOST_CHUNKS) chunks = MOST_CHUNKS;
    size_t rows = chunks ? (norm->rows + chunks - 1) / chunks : norm->rows;
    return rows < FEWEST_ROWS ? FEWEST_ROWS : rows;
}

static size_t num_chunks(const LayerNorm *norm) {
    return (norm->rows + rows_of_chunk(norm) - 1) / rows_of_chunk(norm);
}

size_t layer_norm_scratch(const LayerNorm *norm) { return num_chunks(norm) * 2 * norm->width + 1; }

void layer_norm_backward(const LayerNorm *norm, const float *of_out, float *of_data, float *of_gamma, float *of_beta,
                         float *scratch, int num_threads) {
    size_t width = norm->width, chunks = num_chunks(norm), rows = rows_of_chunk(norm);
#pragma omp parallel for num_threads(threads_for(norm->rows * norm->width, num_threads)) schedule(static)
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        float *sums = scratch + chunk * 2 * width;
        memset(sums, 0, 2 * width * sizeof *sums);
        for (size_t row = chunk * rows; row < norm->rows && row < (chunk + 1) * rows; row++)
            norm_row_backward(norm, norm->data + row * width, of_out + row * width, of_data + row * width, sums,
                              sums + width);
    }
    memset(of_gamma, 0, width * sizeof *of_gamma);
    memset(of_beta, 0, width * sizeof *of_beta);
    for (size_t chunk = 0; chunk < chunks; chunk++)
        for (size_t at = 0; at < width; at++) {
            of_gamma[at] += scratch[chunk * 2 * width + at];
            of_beta[at] += scratch[(chunk * 2 + 1) * width + at];
        }
}
