/* Rows of tables by ids. Each function has a twin in mxtrain/tables/ with the same bits, so sums go from left to right
   and nothing is contracted. */

#include "table.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "fetch.h"

#define GOLDEN 0x9E3779B97F4A7C15u
#define STRIDE 0xD1B54A32D192ED03u

static inline uint64_t mixed(uint64_t number) {
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9u;
    number = (number ^ (number >> 27)) * 0x94D049BB133111EBu;
    return number ^ (number >> 31);
}

/* The place where an id is looked for first: it grows with the hash. */
static inline size_t first_place(const Index *index, int64_t id) {
    return (size_t)((mixed((uint64_t)id) >> 32) * index->num_places >> 32);
}

void find_slots(const Index *index, const int64_t *wanted, size_t count, int64_t *slots) {
    for (size_t at = 0; at < count; at++) {
        if (at + 2 * AHEAD < count) __builtin_prefetch(&index->places[first_place(index, wanted[at + 2 * AHEAD])]);
        if (at + AHEAD < count) {
            int64_t next = (int64_t)index->places[first_place(index, wanted[at + AHEAD])] - 1;
            if (next >= 0) __builtin_prefetch(&index->ids[next]);
        }
        size_t place = first_place(index, wanted[at]);
        int64_t slot;
        while ((slot = (int64_t)index->places[place] - 1) >= 0 && index->ids[slot] != wanted[at]) place++;
        slots[at] = slot;
    }
}

void insert_slots(const Index *index, const int64_t *slots, size_t count) {
    for (size_t at = 0; at < count; at++) {
        if (at + 2 * AHEAD < count) __builtin_prefetch(&index->ids[slots[at + 2 * AHEAD]]);
        if (at + AHEAD < count)
            __builtin_prefetch(&index->places[first_place(index, index->ids[slots[at + AHEAD]])], 1);
        size_t place = first_place(index, index->ids[slots[at]]);
        while (index->places[place]) place++;
        index->places[place] = (int32_t)(slots[at] + 1);
    }
}

void hash_texts(const uint8_t *data, const int64_t *starts, const int64_t *ends, size_t count, int64_t *hashes) {
    for (size_t at = 0; at < count; at++) {
        const uint8_t *text = data + starts[at];
        size_t left = (size_t)(ends[at] - starts[at]);
        uint64_t state = mixed(left + GOLDEN);
        while (left) {
            uint64_t word = 0;
            size_t length = left < sizeof word ? left : sizeof word;
            memcpy(&word, text, length);
            state = mixed(state ^ word);
            text += length;
            left -= length;
        }
        hashes[at] = (int64_t)state;
    }
}

void read_rows(const float *rows, size_t width, const int64_t *slots, const int64_t *ids, size_t count, uint64_t key,
               float scale, float step, float *out) {
    for (size_t at = 0; at < count; at++, out += width) {
        if (at + AHEAD < count && slots[at + AHEAD] >= 0) fetch_row(rows, (size_t)slots[at + AHEAD], width);
        if (slots[at] >= 0) {
            memcpy(out, rows + (size_t)slots[at] * width, width * sizeof(float));
            continue;
        }
        uint64_t begin = mixed((uint64_t)ids[at] * STRIDE + key);
        for (size_t column = 0; column < width; column++) {
            float fraction = (float)(mixed(begin + (column + 1) * GOLDEN) >> 40);
            out[column] = fraction * step - scale;
        }
    }
}

void gather_items(const uint8_t *column, size_t item_bytes, const int64_t *slots, size_t count, uint8_t *records,
                  size_t record_bytes) {
    for (size_t at = 0; at < count; at++, records += record_bytes) {
        if (at + AHEAD < count) __builtin_prefetch(column + (size_t)slots[at + AHEAD] * item_bytes);
        memcpy(records, column + (size_t)slots[at] * item_bytes, item_bytes);
    }
}

static int read_record(const RecordFile *from, size_t place, uint8_t *record) {
    ssize_t num_read = pread(from->file, record, from->record_bytes,
                             from->start + (int64_t)place * (int64_t)from->record_bytes);
    return num_read == (ssize_t)from->record_bytes;
}

int find_records(const RecordFile *from, const int64_t *ids, size_t count, uint8_t *are_there, uint8_t *records) {
    for (size_t at = 0; at < count; at++, records += from->record_bytes) {
        uint64_t hash = mixed((uint64_t)ids[at]), below = 0, above = UINT64_MAX, here;
        size_t low = 0, high = from->num_records;
        are_there[at] = 0;
        for (int turn = 1; low < high; turn++) {
            /* Where a hash between two others is to be expected; one turn in four halves what is left. */
            double part = turn % 4 ? (double)(hash - below) / ((double)(above - below) + 1) : 0.5;
            size_t middle = low + (size_t)(part * (double)(high - low));
            if (middle >= high) middle = high - 1;
            if (!read_record(from, middle, records)) return 0;
            memcpy(&here, records, sizeof here);
            here = mixed(here);
            if (here == hash) {
                are_there[at] = 1;
                break;
            }
            if (here < hash) low = middle + 1, below = here;
            else high = middle, above = here;
        }
    }
    return 1;
}

void take_rows(const float *rows, size_t width, const int64_t *positions, size_t count, float *out) {
    for (size_t at = 0; at < count; at++, out += width) {
        if (at + AHEAD < count) __builtin_prefetch(&rows[(size_t)positions[at + AHEAD] * width]);
        memcpy(out, rows + (size_t)positions[at] * width, width * sizeof(float));
    }
}

size_t distinct_ids(const int64_t *ids, size_t count, int32_t *places, size_t num_places, int64_t *distinct,
                    int64_t *positions) {
    size_t num_distinct = 0, mask = num_places - 1;
    memset(places, 0, num_places * sizeof *places);
    for (size_t at = 0; at < count; at++) {
        if (at + AHEAD < count) __builtin_prefetch(&places[mixed((uint64_t)ids[at + AHEAD]) & mask], 1);
        size_t place = mixed((uint64_t)ids[at]) & mask;
        while (places[place] && distinct[places[place] - 1] != ids[at]) place = (place + 1) & mask;
        if (!places[place]) {
            distinct[num_distinct] = ids[at];
            places[place] = (int32_t)++num_distinct;
        }
        positions[at] = places[place] - 1;
    }
    return num_distinct;
}

void add_rows_to(float *sums, size_t width, const int64_t *places, const float *rows, size_t count) {
    for (size_t at = 0; at < count; at++, rows += width) {
        if (at + AHEAD < count) __builtin_prefetch(&sums[(size_t)places[at + AHEAD] * width], 1);
        float *sum = sums + (size_t)places[at] * width;
        for (size_t column = 0; column < width; column++) sum[column] += rows[column];
    }
}

void square_rows(const float *rows, size_t width, size_t count, double *squares) {
    for (size_t at = 0; at < count; at++, rows += width) {
        double sum = 0;
        for (size_t column = 0; column < width; column++) sum += (double)rows[column] * (double)rows[column];
        squares[at] = sum;
    }
}

int add_by_exponent(const double *values, size_t count, int64_t *sums) {
    for (size_t at = 0; at < count; at++) {
        int64_t bits;
        memcpy(&bits, &values[at], sizeof bits);
        int64_t exponent = bits >> 52 & (EXPONENTS - 1), mantissa = bits & ((INT64_C(1) << 52) - 1);
        if (exponent == EXPONENTS - 1) return 0;
        if (exponent) mantissa |= INT64_C(1) << 52;
        if (bits < 0) mantissa = -mantissa;
        /* In halves: as a whole int64 would have room for 1,024 of them only. */
        sums[2 * exponent] += mantissa >> 26;
        sums[2 * exponent + 1] += mantissa & ((1 << 26) - 1);
    }
    return 1;
}

/* One row; `first` and `second` are its parts of those arrays, `single` and `other` its numbers. */
static inline void move(const Movement *by, size_t width, float *row, float *first, float *second, float *single,
                        float *other, const float *gradient) {
    float rate = by->rate, epsilon = by->epsilon, factor = by->factor;
    if (by->decay != 0) {
        float less = rate * by->decay;
        for (size_t at = 0; at < width; at++) row[at] -= less * row[at];
    }
    switch (by->optimizer) {
    case SGD:
        for (size_t at = 0; at < width; at++) row[at] -= rate * (factor * gradient[at]);
        return;
    case MOMENTUM:
        for (size_t at = 0; at < width; at++) {
            first[at] = by->momentum * first[at] + factor * gradient[at];
            row[at] -= rate * first[at];
        }
        return;
    case ADAGRAD:
        for (size_t at = 0; at < width; at++) {
            float by_factor = factor * gradient[at];
            first[at] += by_factor * by_factor;
            row[at] -= rate * by_factor / (sqrtf(first[at]) + epsilon);
        }
        return;
    case ADAGRAD_ROW: {
        float squares = 0;
        for (size_t at = 0; at < width; at++) squares += (factor * gradient[at]) * (factor * gradient[at]);
        *single += squares / (float)width;
        float step = rate / (sqrtf(*single) + epsilon);
        for (size_t at = 0; at < width; at++) row[at] -= step * (factor * gradient[at]);
        return;
    }
    case ADAM: {
        float rest1 = 1 - by->beta1, rest2 = 1 - by->beta2;
        /* 1 less the powers of beta, which correct means that began with zero */
        float of_means = *single = by->beta1 * *single + rest1;
        float of_squares = *other = by->beta2 * *other + rest2;
        for (size_t at = 0; at < width; at++) {
            float by_factor = factor * gradient[at];
            first[at] = by->beta1 * first[at] + rest1 * by_factor;
            second[at] = by->beta2 * second[at] + rest2 * (by_factor * by_factor);
            row[at] -= rate * (first[at] / of_means) / (sqrtf(second[at] / of_squares) + epsilon);
        }
        return;
    }
    }
}

static inline float *part(float *array, size_t slot, size_t width) { return array ? array + slot * width : NULL; }

void move_rows(const Movement *movement, size_t width, const int64_t *slots, const float *gradients, size_t count) {
    for (size_t at = 0; at < count; at++) {
        if (at + AHEAD < count) {
            size_t next = (size_t)slots[at + AHEAD];
            fetch_row(movement->rows, next, width);
            fetch_row(movement->first, next, width);
            fetch_row(movement->second, next, width);
            fetch_row(movement->single, next, 1);
            fetch_row(movement->other, next, 1);
        }
        size_t slot = (size_t)slots[at];
        move(movement, width, movement->rows + slot * width, part(movement->first, slot, width),
             part(movement->second, slot, width), part(movement->single, slot, 1), part(movement->other, slot, 1),
             gradients + at * width);
    }
}
