/* Random tables through every function of table.c and fields.c, in arrays as long as they have to be and no longer, and compared with
   loops that look at all that there is; built with sanitizers, which end it where memory is misused. */

#include "fields.h"
#include "table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 1;

static uint64_t drawn(uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

static float number(void) { return (float)drawn(2001) / 1000 - 1; }

static void check(int is_right, const char *what) {
    if (is_right) return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void *room(size_t count, size_t size) { return calloc(count ? count : 1, size); }

static void try_index(size_t num_slots, size_t num_places) {
    size_t num_used = (size_t)drawn(num_slots + 1), num_wanted = (size_t)drawn(200);
    int64_t *ids = room(num_slots, 8), *slots = room(num_used, 8);
    int64_t *wanted = room(num_wanted, 8), *answers = room(num_wanted, 8);
    int32_t *places = room(num_places + num_slots + 1, 4);
    Index index = {places, num_places, ids};
    for (size_t at = 0; at < num_slots; at++) ids[at] = (int64_t)(at * 2654435761u) - (int64_t)drawn(2) * INT64_MAX;
    for (size_t at = 0; at < num_used; at++) slots[at] = (int64_t)at;
    insert_slots(&index, slots, num_used);
    for (size_t at = 0; at < num_wanted; at++)
        wanted[at] = drawn(3) && num_slots ? ids[drawn(num_slots)] : (int64_t)drawn(INT32_MAX);
    find_slots(&index, wanted, num_wanted, answers);
    for (size_t at = 0; at < num_wanted; at++) {
        int64_t slot = -1;
        for (size_t other = 0; other < num_used; other++)
            if (ids[other] == wanted[at]) slot = (int64_t)other;
        check(answers[at] == slot || (slot >= 0 && ids[answers[at]] == wanted[at]), "another slot");
    }
    free(ids), free(slots), free(wanted), free(answers), free(places);
}

static void try_rows(size_t width, size_t num_slots, size_t count) {
    size_t size = width * num_slots;
    float *rows = room(size, 4), *first = room(size, 4), *second = room(size, 4), *out = room(width * count, 4);
    float *single = room(num_slots, 4), *other = room(num_slots, 4), *gradients = room(width * count, 4);
    int64_t *slots = room(count, 8), *ids = room(count, 8);
    uint8_t *records = room(count, width * 4 + 3);
    for (size_t at = 0; at < size; at++) rows[at] = number();
    for (size_t at = 0; at < width * count; at++) gradients[at] = number();
    for (size_t at = 0; at < count; at++) slots[at] = (int64_t)drawn(num_slots);
    for (int optimizer = SGD; optimizer <= ADAM; optimizer++) {
        Movement movement = {(Optimizer)optimizer, rows, first, second, single, other, 0.5f, 0.1f, 0.9f, 0.9f, 0.99f, 1e-8f,
                             (float)drawn(2) / 8};
        move_rows(&movement, width, slots, gradients, count);
    }
    gather_items((uint8_t *)rows, width * 4, slots, count, records + 3, width * 4 + 3);
    for (size_t at = 0; at < count; at++)
        if (!drawn(4)) slots[at] = -1;
    read_rows(rows, width, slots, ids, count, drawn(UINT32_MAX), 0.5f, 0x1p-24f, out);
    for (size_t at = 0; at < count; at++) {
        check(slots[at] < 0 || !memcmp(out + at * width, rows + (size_t)slots[at] * width, width * 4), "another row");
        check(slots[at] < 0 || !memcmp(out + at * width, records + at * (width * 4 + 3) + 3, width * 4), "another item");
        for (size_t column = 0; column < width; column++)
            check(slots[at] >= 0 || fabsf(out[at * width + column]) <= 0.5f, "another first value");
        slots[at] = (int64_t)drawn(num_slots);
    }
    add_rows_to(first, width, slots, gradients, count);
    double *squares = room(count, 8);
    square_rows(gradients, width, count, squares);
    for (size_t at = 0; at < count; at++) {
        double sum = 0;
        for (size_t column = 0; column < width; column++) sum += pow(gradients[at * width + column], 2);
        check(fabs(squares[at] - sum) < 1e-9, "another sum of squares");
    }
    free(squares);
    free(rows), free(first), free(second), free(out), free(single), free(other), free(gradients), free(slots), free(ids);
    free(records);
}

static void try_texts(size_t num_bytes, size_t count) {
    uint8_t *data = room(num_bytes, 1);
    int64_t *starts = room(count, 8), *ends = room(count, 8), *hashes = room(count, 8), *again = room(count, 8);
    for (size_t at = 0; at < num_bytes; at++) data[at] = (uint8_t)drawn(256);
    for (size_t at = 0; at < count; at++) {
        starts[at] = (int64_t)drawn(num_bytes + 1);
        ends[at] = starts[at] + (int64_t)drawn(num_bytes - (size_t)starts[at] + 1);
    }
    hash_texts(data, starts, ends, count, hashes);
    hash_texts(data, starts, ends, count, again);
    check(!memcmp(hashes, again, count * 8), "another hash");
    free(data), free(starts), free(ends), free(hashes), free(again);
}

/* Files of records in any order and of any length, also ones that have lost their end. */
static void try_file(size_t record_bytes, size_t num_records, size_t count) {
    uint8_t *records = room(num_records, record_bytes), *answers = room(count, record_bytes), *are_there = room(count, 1);
    int64_t *ids = room(count, 8);
    FILE *file = tmpfile();
    for (size_t at = 0; at < num_records * record_bytes; at++) records[at] = (uint8_t)drawn(256);
    size_t num_kept = drawn(4) ? num_records * record_bytes : (size_t)drawn(num_records * record_bytes + 1);
    check(file && fwrite(records, 1, num_kept, file) == num_kept && !fflush(file), "no file");
    for (size_t at = 0; at < count; at++) {
        ids[at] = (int64_t)drawn(UINT32_MAX);
        if (num_records && drawn(2)) memcpy(ids + at, records + drawn(num_records) * record_bytes, 8);
    }
    RecordFile from = {fileno(file), 0, record_bytes, num_records};
    if (find_records(&from, ids, count, are_there, answers))
        for (size_t at = 0; at < count; at++)
            check(!are_there[at] || !memcmp(answers + at * record_bytes, ids + at, 8), "another record");
    else check(num_kept < num_records * record_bytes, "a file that cannot be read");
    fclose(file);
    free(records), free(answers), free(are_there), free(ids);
}

static float *numbers(size_t count) {
    float *found = room(count, 4);
    for (size_t at = 0; at < count; at++) found[at] = number();
    return found;
}

static void try_fields(Fields shape, size_t num_rows) {
    size_t length = shape.weights + shape.width, count = shape.samples * shape.fields;
    float *rows = numbers(num_rows * length), *vectors = room(count * shape.width, 4);
    float *sums = room(shape.samples * length, 4), *squares = room(shape.samples, 4), *scratch = room(shape.width, 4);
    float *of_vectors = numbers(count * shape.width), *of_sums = numbers(shape.samples * length);
    float *of_squares = numbers(shape.samples), *gradients = room(num_rows * length, 4);
    double *expected = room(num_rows * length, 8);
    int64_t *positions = room(count, 8);
    for (size_t at = 0; at < count; at++) positions[at] = (int64_t)drawn(num_rows);
    take_fields(&shape, rows, positions, vectors, sums, squares, scratch);
    add_fields(&shape, gradients, positions, vectors, of_vectors, of_sums, of_squares);
    for (size_t sample = 0; sample < shape.samples; sample++) {
        double sum_of_squares = 0;
        for (size_t column = 0; column < length; column++) {
            double sum = 0;
            for (size_t field = 0; field < shape.fields; field++) {
                size_t place = sample * shape.fields + field, row = (size_t)positions[place] * length + column;
                sum += rows[row];
                expected[row] += of_sums[sample * length + column];
                if (column < shape.weights) continue;
                sum_of_squares += (double)rows[row] * rows[row];
                expected[row] += of_vectors[place * shape.width + column - shape.weights];
                expected[row] += 2.0 * of_squares[sample] * rows[row];
                check(vectors[place * shape.width + column - shape.weights] == rows[row], "another vector");
            }
            check(fabs(sum - sums[sample * length + column]) < 1e-4, "another sum of fields");
        }
        check(fabs(sum_of_squares - squares[sample]) < 1e-3, "another sum of squares of fields");
    }
    for (size_t at = 0; at < num_rows * length; at++) check(fabs(expected[at] - gradients[at]) < 1e-3, "another gradient");
    free(rows), free(vectors), free(sums), free(squares), free(scratch), free(of_vectors), free(of_sums);
    free(of_squares), free(gradients), free(expected), free(positions);
}

int main(int count, char **arguments) {
    long num_rounds = count > 1 ? atol(arguments[1]) : 1;
    for (long round = 0; round < num_rounds; round++) {
        try_index((size_t)drawn(300), 1 + (size_t)drawn(400));
        try_rows(1 + (size_t)drawn(40), 1 + (size_t)drawn(100), (size_t)drawn(100));
        try_file(8 + (size_t)drawn(30), (size_t)drawn(100), (size_t)drawn(50));
        try_texts((size_t)drawn(100), (size_t)drawn(20));
        try_fields((Fields){(size_t)drawn(9), (size_t)drawn(9), (size_t)drawn(4), 1 + (size_t)drawn(40)},
                   1 + (size_t)drawn(30));
    }
    printf("%ld\n", num_rounds);
    return 0;
}
