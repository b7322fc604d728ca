/* A head of a sample is one thread's, in blocks of rows whose scores stay in the cache. What is hidden from all rows of a
   block, before the first or behind the last token that one of them sees, is left out: its share would be 0. The shares
   are made anew for the backward pass. */

#include "tokens/attention.h"

#include <math.h>
#include <string.h>

#include "products/product.h"
#include "threads.h"
#include "vectors.h"

#define BLOCK 48      /* rows of scores at a time */
#define MANY_HEADS 8  /* for a thread, of which one more or less does not matter */
#define HIDDEN -1e9f  /* what is added to a score whose share is 0, or less */

/* The arrays of a head, and where its results go. */
typedef struct {
    Matrix query, key, value;
    const float *added; /* NULL where nothing is */
    size_t sample, head;
} Head;

/* A part of the scores: rows from `row` on, columns from `first` to `end`. */
typedef struct {
    size_t row, rows, first, end;
} Part;

static size_t rounded(size_t count) { return (count + PANEL - 1) / PANEL * PANEL; }

static Head head_of(const Attention *a, size_t place) {
    size_t sample = place / a->heads, head = place % a->heads, row = a->batch * a->heads * 3 * a->width;
    const float *begin = a->projected + (sample * a->heads + head) * 3 * a->width;
    Head found = {{begin, row, 1}, {begin + a->width, row, 1}, {begin + 2 * a->width, row, 1},
                  a->masks ? a->added + (a->masks == 1 ? 0 : place * a->length * a->length) : NULL, sample, head};
    return found;
}

static Matrix transposed(Matrix matrix) {
    Matrix turned = {matrix.numbers, matrix.column, matrix.row};
    return turned;
}

static Matrix from_row(Matrix matrix, size_t row) {
    Matrix rest = {matrix.numbers + row * matrix.row, matrix.row, matrix.column};
    return rest;
}

/* Whether none of eight numbers that are added, or of fewer, leaves a share. */
FMA static inline int are_hidden(const float *added, size_t count) {
    if (count == 8)
        return !_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(added), _mm256_set1_ps(HIDDEN), _CMP_NLT_UQ));
    for (size_t at = 0; at < count; at++)
        if (!(added[at] < HIDDEN)) return 0;
    return 1;
}

/* Which columns, in eights, some row of a part sees; all of them where a row sees none. */
static void find_seen(const float *added, size_t length, Part *part) {
    size_t first = length, end = 0;
    for (size_t row = part->row; row < part->row + part->rows; row++) {
        const float *of_row = added + row * length;
        size_t begin = 0, last = length;
        if (last % 8 && are_hidden(of_row + last / 8 * 8, last % 8)) last = last / 8 * 8;
        while (last && last % 8 == 0 && are_hidden(of_row + last - 8, 8)) last -= 8;
        if (!last) {
            first = 0, end = length;
            break;
        }
        while (begin + 8 <= first && are_hidden(of_row + begin, 8)) begin += 8;
        if (begin < first) first = begin;
        if (last > end) end = last;
    }
    part->first = first / PANEL * PANEL;
    part->end = end;
}

/* Turn a row of scores into shares: `count` of them, and behind these, up to a whole panel, zeros. What is added to them is
   nothing where `added` is NULL. */
FMA static void share(float *scores, const float *added, float scale, size_t count) {
    size_t whole = rounded(count), at = 0;
    float largest = -INFINITY;
    __m256 largest_of = _mm256_set1_ps(largest), scales = _mm256_set1_ps(scale);
    for (; at + 8 <= count; at += 8) {
        __m256 more = added ? _mm256_loadu_ps(added + at) : _mm256_setzero_ps();
        __m256 score = _mm256_fmadd_ps(_mm256_loadu_ps(scores + at), scales, more);
        largest_of = _mm256_max_ps(largest_of, score);
        _mm256_storeu_ps(scores + at, score);
    }
    for (; at < count; at++) {
        scores[at] = fmaf(scores[at], scale, added ? added[at] : 0);
        if (scores[at] > largest) largest = scores[at];
    }
    for (; at < whole; at++) scores[at] = -INFINITY;
    float all[8];
    _mm256_storeu_ps(all, largest_of);
    for (at = 0; at < 8; at++)
        if (all[at] > largest) largest = all[at];
    /* What is no number stays none, and makes the whole row so. */
    __m256 most = _mm256_set1_ps(largest), sums = _mm256_setzero_ps();
    for (at = 0; at < whole; at += 8) {
        __m256 each = exponential_or_nan(_mm256_sub_ps(_mm256_loadu_ps(scores + at), most));
        sums = _mm256_add_ps(sums, each);
        _mm256_storeu_ps(scores + at, each);
    }
    __m256 factor = _mm256_set1_ps(1 / sum_of(sums));
    for (at = 0; at < whole; at += 8)
        _mm256_storeu_ps(scores + at, _mm256_mul_ps(_mm256_loadu_ps(scores + at), factor));
}

static Part part_from(const Attention *a, const Head *head, size_t row) {
    Part part = {row, a->length - row < BLOCK ? a->length - row : BLOCK, 0, a->length};
    if (head->added) find_seen(head->added, a->length, &part);
    return part;
}

/* Rows of a matrix, copied together: where they lie apart by pages they push each other out of the cache. */
static Matrix side_by_side(Matrix from, size_t rows, size_t width, float *to) {
    for (size_t row = 0; row < rows; row++) memcpy(to + row * width, from.numbers + row * from.row, width * sizeof *to);
    Matrix copy = {to, width, 1};
    return copy;
}

/* The numbers from a row of scores to the next; a power of two would have them push each other out of the cache. */
static size_t stride_of(size_t length) { return rounded(length) + PANEL; }

/* Scratch memory of a thread, cut into arrays. */
typedef struct {
    float *keys, *values, *rows_of_all, *queries, *gradients, *rows, *shares, *of_shares, *of_keys, *of_values;
} Scratch;

static size_t cut(const Attention *a, float *memory, Scratch *scratch) {
    size_t by_columns = panels_size(a->width, a->length), by_rows = panels_size(a->length, a->width);
    size_t of_block = panels_size(BLOCK, a->width), scores = BLOCK * stride_of(a->length);
    size_t sizes[] = {by_columns, by_columns, by_rows, of_block, of_block, of_block, scores, scores, by_rows, by_rows};
    float **arrays[] = {&scratch->keys,   &scratch->values,    &scratch->rows_of_all, &scratch->queries,  &scratch->gradients,
                        &scratch->rows, &scratch->shares, &scratch->of_shares, &scratch->of_keys,      &scratch->of_values};
    return cut_memory(memory, sizes, arrays, sizeof sizes / sizeof *sizes);
}

size_t attention_scratch(const Attention *attention) {
    Scratch scratch;
    return rounded(cut(attention, NULL, &scratch));
}

/* Write the shares of a part, from the panels of all keys; rows have `stride` numbers. */
static void shares_of(const Attention *a, const Head *head, const Scratch *scratch, const Part *part, size_t stride) {
    size_t count = part->end - part->first;
    float *shares = scratch->shares;
    Matrix queries = side_by_side(from_row(head->query, part->row), part->rows, a->width, scratch->rows);
    multiply(queries, scratch->keys + part->first * a->width, a->width, 0, part->rows, a->width, count, shares, stride,
             WRITE);
    float scale = 1 / sqrtf((float)a->width);
    for (size_t row = 0; row < part->rows; row++)
        share(shares + row * stride, head->added ? head->added + (part->row + row) * a->length + part->first : NULL,
              scale, count);
}

/* Drop shares of a part, or gradients of what shares these left. */
static void drop_part(const Attention *a, size_t place, const Part *part, float *numbers, size_t stride) {
    if (!a->drops) return;
    for (size_t row = 0; row < part->rows; row++)
        drop(&a->dropout, place * a->length + part->row + row, part->first, part->end - part->first,
             numbers + row * stride);
}

/* The rows of a head from one block of them to another. */
static void attend_head(const Attention *a, size_t place, size_t first, size_t end, float *out, float *memory) {
    Head head = head_of(a, place);
    Scratch scratch;
    cut(a, memory, &scratch);
    size_t stride = stride_of(a->length), row_stride = a->batch * a->heads * a->width;
    put_into_panels(transposed(head.key), a->width, a->length, scratch.keys);
    put_into_panels(head.value, a->length, a->width, scratch.rows_of_all);
    out += (head.sample * a->heads + head.head) * a->width;
    for (size_t row = first * BLOCK; row < a->length && row < end * BLOCK; row += BLOCK) {
        Part part = part_from(a, &head, row);
        shares_of(a, &head, &scratch, &part, stride);
        drop_part(a, place, &part, scratch.shares, stride);
        Matrix shares = {scratch.shares, stride, 1};
        multiply(shares, scratch.rows_of_all, a->length, part.first, part.rows, part.end - part.first, a->width,
                 out + row * row_stride, row_stride, WRITE);
    }
}

/* From the shares' gradients, `rows` of them, to those of the scores before they were scaled. */
FMA static void unshare(const float *shares, float *of_shares, float scale, size_t count) {
    __m256 sums = _mm256_setzero_ps();
    size_t whole = rounded(count);
    for (size_t at = count; at < whole; at++) of_shares[at] = 0;
    for (size_t at = 0; at < whole; at += 8)
        sums = _mm256_fmadd_ps(_mm256_loadu_ps(shares + at), _mm256_loadu_ps(of_shares + at), sums);
    __m256 mean = _mm256_set1_ps(sum_of(sums)), factor = _mm256_set1_ps(scale);
    for (size_t at = 0; at < whole; at += 8) {
        __m256 less = _mm256_sub_ps(_mm256_loadu_ps(of_shares + at), mean);
        _mm256_storeu_ps(of_shares + at, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(shares + at), less), factor));
    }
}

static void write_rows(const float *from, size_t rows, size_t width, float *to, size_t stride) {
    for (size_t row = 0; row < rows; row++) memcpy(to + row * stride, from + row * width, width * sizeof *to);
}

static void attend_head_backward(const Attention *a, size_t place, const float *of_out, float *of_projected,
                                 float *memory) {
    Head head = head_of(a, place);
    Scratch scratch;
    cut(a, memory, &scratch);
    size_t stride = stride_of(a->length), width = a->width, row_stride = a->batch * a->heads * width;
    Matrix gradient = {of_out + (head.sample * a->heads + head.head) * width, row_stride, 1};
    float *of_query = of_projected + (head.sample * a->heads + head.head) * 3 * width;
    put_into_panels(transposed(head.key), width, a->length, scratch.keys);
    put_into_panels(transposed(head.value), width, a->length, scratch.values);
    put_into_panels(head.key, a->length, width, scratch.rows_of_all);
    memset(scratch.of_keys, 0, a->length * width * sizeof *memory);
    memset(scratch.of_values, 0, a->length * width * sizeof *memory);
    for (size_t row = 0; row < a->length; row += BLOCK) {
        Part part = part_from(a, &head, row);
        size_t count = part.end - part.first;
        shares_of(a, &head, &scratch, &part, stride);
        Matrix of_rows = side_by_side(from_row(gradient, row), part.rows, width, scratch.rows);
        multiply(of_rows, scratch.values + part.first * width, width, 0, part.rows, width, count, scratch.of_shares,
                 stride, WRITE);
        drop_part(a, place, &part, scratch.of_shares, stride);
        for (size_t at = 0; at < part.rows; at++)
            unshare(scratch.shares + at * stride, scratch.of_shares + at * stride, 1 / sqrtf((float)width), count);
        drop_part(a, place, &part, scratch.shares, stride);
        put_into_panels(from_row(head.query, row), part.rows, width, scratch.queries);
        put_into_panels(of_rows, part.rows, width, scratch.gradients);
        Matrix shares = {scratch.shares, stride, 1}, of_scores = {scratch.of_shares, stride, 1};
        multiply(of_scores, scratch.rows_of_all, a->length, part.first, part.rows, count, width,
                 of_query + row * 3 * row_stride, 3 * row_stride, WRITE);
        multiply(transposed(of_scores), scratch.queries, part.rows, 0, count, part.rows, width,
                 scratch.of_keys + part.first * width, width, ADD);
        multiply(transposed(shares), scratch.gradients, part.rows, 0, count, part.rows, width,
                 scratch.of_values + part.first * width, width, ADD);
    }
    write_rows(scratch.of_keys, a->length, width, of_query + width, 3 * row_stride);
    write_rows(scratch.of_values, a->length, width, of_query + 2 * width, 3 * row_stride);
}

void attend(const Attention *attention, float *out, float *scratch, int num_threads) {
    size_t size = attention_scratch(attention), heads = attention->batch * attention->heads;
    size_t threads = (size_t)num_threads, blocks = (attention->length + BLOCK - 1) / BLOCK;
    /* Few heads that threads could not share evenly are cut, though each piece needs the head's panels. */
    size_t pieces = heads % threads && heads < MANY_HEADS * threads ? threads : 1;
#pragma omp parallel for num_threads(num_threads) schedule(dynamic)
    for (size_t place = 0; place < heads * pieces; place++) {
        size_t piece = place % pieces;
        attend_head(attention, place / pieces, blocks * piece / pieces, blocks * (piece + 1) / pieces, out,
                    scratch + (size_t)omp_get_thread_num() * size);
    }
}

void attend_backward(const Attention *attention, const float *of_out, float *of_projected, float *scratch,
                     int num_threads) {
    size_t size = attention_scratch(attention);
#pragma omp parallel for num_threads(num_threads) schedule(dynamic)
    for (size_t place = 0; place < attention->batch * attention->heads; place++)
        attend_head_backward(attention, place, of_out, of_projected, scratch + (size_t)omp_get_thread_num() * size);
}
