/* Each function has a twin in mxtrain/tables/sums.py with the same bits: fields are added one after the other, and
   columns from left to right. */

#include "fields.h"

#include <string.h>

#include "fetch.h"

void take_fields(const Fields *shape, const float *rows, const int64_t *positions, float *vectors, float *sums,
                 float *squares, float *squares_of_columns) {
    size_t weights = shape->weights, width = shape->width, length = weights + width;
    const int64_t *end = positions + shape->samples * shape->fields;
    memset(sums, 0, shape->samples * length * sizeof *sums);
    for (size_t sample = 0; sample < shape->samples; sample++, sums += length) {
        memset(squares_of_columns, 0, width * sizeof *squares_of_columns);
        for (size_t field = 0; field < shape->fields; field++, positions++, vectors += width) {
            if (positions + AHEAD < end) fetch_row(rows, (size_t)positions[AHEAD], length);
            const float *row = rows + (size_t)*positions * length;
            for (size_t at = 0; at < length; at++) sums[at] += row[at];
            row += weights;
            for (size_t at = 0; at < width; at++) {
                vectors[at] = row[at];
                squares_of_columns[at] += row[at] * row[at];
            }
        }
        float sum = 0;
        for (size_t at = 0; at < width; at++) sum += squares_of_columns[at];
        squares[sample] = sum;
    }
}

void add_fields(const Fields *shape, float *rows, const int64_t *positions, const float *vectors,
                const float *of_vectors, const float *of_sums, const float *of_squares) {
    size_t weights = shape->weights, width = shape->width, length = weights + width;
    const int64_t *end = positions + shape->samples * shape->fields;
    for (size_t sample = 0; sample < shape->samples; sample++, of_sums += length) {
        float twice = 2 * of_squares[sample];
        for (size_t field = 0; field < shape->fields; field++, positions++, vectors += width, of_vectors += width) {
            if (positions + AHEAD < end) fetch_row(rows, (size_t)positions[AHEAD], length);
            float *row = rows + (size_t)*positions * length;
            for (size_t at = 0; at < weights; at++) row[at] += of_sums[at];
            row += weights;
            for (size_t at = 0; at < width; at++)
                row[at] += (of_sums[weights + at] + of_vectors[at]) + twice * vectors[at];
        }
    }
}
