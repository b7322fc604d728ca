/* Rows of tables by ids: see mxtrain/tables/. */

#ifndef MXTRAIN_TABLE_H
#define MXTRAIN_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* An index from ids to slots: places of slots + 1, 0 where there is none, in open addressing. `mask` is the number of
   places less one, a power of two; some have to be empty. */
typedef struct {
    int32_t *places;
    uint64_t mask;
    const int64_t *ids; /* of slots */
} Index;

/* The slot of each id, -1 for one that is not there. */
void find_slots(const Index *index, const int64_t *wanted, size_t count, int64_t *slots);

/* Put in slots, whose ids are not there yet. */
void insert_slots(const Index *index, const int64_t *slots, size_t count);

/* The rows of slots; for a slot of -1 the first values that its id has by `key`, from -scale to scale. */
void read_rows(const float *rows, size_t width, const int64_t *slots, const int64_t *ids, size_t count, uint64_t key,
               float scale, float step, float *out);

/* Add each row to the sum at its place, in their order. */
void add_rows_to(float *sums, size_t width, const int64_t *places, const float *rows, size_t count);

typedef enum { SGD, MOMENTUM, ADAGRAD, ADAGRAD_ROW, ADAM } Optimizer;

/* How rows move. What an optimizer does not have is NULL, or not read. */
typedef struct {
    Optimizer optimizer;
    float *rows, *first, *second;               /* of all slots, as wide as a row */
    float *single, *other;                      /* a number of each slot */
    float rate, momentum, beta1, beta2, epsilon, decay;
} Movement;

void move_rows(const Movement *movement, size_t width, const int64_t *slots, const float *gradients, size_t count);

#endif
