/* Rows of tables by ids: see mxtrain/tables/. */

#ifndef MXTRAIN_TABLE_H
#define MXTRAIN_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* An index from ids to slots: places of slots + 1, 0 where there is none, in open addressing. Behind the last of the
   `num_places`, below 2^32, are more of them: as many as there are slots, and one that is empty. */
typedef struct {
    int32_t *places;
    uint64_t num_places;
    const int64_t *ids; /* of slots */
} Index;

/* The slot of each id, -1 for one that is not there. */
void find_slots(const Index *index, const int64_t *wanted, size_t count, int64_t *slots);

/* Put in slots, whose ids are not there yet. */
void insert_slots(const Index *index, const int64_t *slots, size_t count);

/* The hash of each text, from its start to its end in `data`. */
void hash_texts(const uint8_t *data, const int64_t *starts, const int64_t *ends, size_t count, int64_t *hashes);

/* The rows of slots; for a slot of -1 the first values that its id has by `key`, from -scale to scale. */
void read_rows(const float *rows, size_t width, const int64_t *slots, const int64_t *ids, size_t count, uint64_t key,
               float scale, float step, float *out);

/* Copy the item of each slot in a column to one record after the other. */
void gather_items(const uint8_t *column, size_t item_bytes, const int64_t *slots, size_t count, uint8_t *records,
                  size_t record_bytes);

/* Records on disk, `record_bytes` each, that begin with their ids and ascend by the hashes of these. */
typedef struct {
    int file;
    int64_t start;
    size_t record_bytes, num_records;
} RecordFile;

/* Read the record of each id; whether it is there. 0 where the file cannot be read. */
int find_records(const RecordFile *from, const int64_t *ids, size_t count, uint8_t *are_there, uint8_t *records);

/* The row at each position. */
void take_rows(const float *rows, size_t width, const int64_t *positions, size_t count, float *out);

/* Write each id once, in the order in which they come, and the position among these of each; return how many there are.
   `places` are scratch memory, a power of two and more than there are ids. */
size_t distinct_ids(const int64_t *ids, size_t count, int32_t *places, size_t num_places, int64_t *distinct,
                    int64_t *positions);

/* Add each row to the sum at its place, in their order. */
void add_rows_to(float *sums, size_t width, const int64_t *places, const float *rows, size_t count);

/* The sum of the squares of each row, column by column. */
void square_rows(const float *rows, size_t width, size_t count, double *squares);

/* Add each number's mantissa to the sums of its exponent, (EXPONENTS, 2): the upper bits, and the lower 26. 0 at a number
   that is not finite. */
#define EXPONENTS 2048
int add_by_exponent(const double *values, size_t count, int64_t *sums);

typedef enum { SGD, MOMENTUM, ADAGRAD, ADAGRAD_ROW, ADAM } Optimizer;

/* How rows move. What an optimizer does not have is NULL, or not read. */
typedef struct {
    Optimizer optimizer;
    float *rows, *first, *second;               /* of all slots, as wide as a row */
    float *single, *other;                      /* a number of each slot */
    float factor; /* of the gradients */
    float rate, momentum, beta1, beta2, epsilon, decay;
} Movement;

void move_rows(const Movement *movement, size_t width, const int64_t *slots, const float *gradients, size_t count);

#endif
