/* Sums on a grid, in loops that compilers turn into vectors. */

#include "grid.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "rounding.h"

static size_t length_from(size_t start, size_t count) {
    return count - start < BLOCK_LENGTH ? count - start : BLOCK_LENGTH;
}

/* Beside a rounder of 1.5 * 2^52 units a double has no digits below a unit: adding it rounds, ties to even. */
static inline double on_grid(double value, double rounder, double limit) {
    double rounded = (value + rounder) - rounder;
    rounded = fabs(value) <= limit ? rounded : (double)INFINITY;
    return fabs(value) <= FLT_MAX ? rounded : (double)NAN;
}

static void add_block(double *restrict total, const float *restrict values, size_t length, int exponent, int reach) {
    double rounder = ldexp(1.5, exponent + 52), limit = ldexp(1.0, exponent + reach);
    for (size_t i = 0; i < length; i++) total[i] += on_grid(values[i], rounder, limit);
}

/* What the other does to a total of zeros, of which the numbers are floats. */
static void round_block(float *restrict total, const float *restrict values, size_t length, int exponent, int reach) {
    Unit unit = unit_of(exponent, reach);
    for (size_t i = 0; i < length; i++) total[i] = on_unit(values[i], unit);
}

/* The same where the numbers are. */
static void round_in_place(float *values, size_t length, int exponent, int reach) {
    Unit unit = unit_of(exponent, reach);
    for (size_t i = 0; i < length; i++) values[i] = on_unit(values[i], unit);
}

static void to_floats(const double *restrict total, float *restrict values, size_t length) {
    for (size_t i = 0; i < length; i++) values[i] = (float)total[i];
}

static float largest(const float *restrict values, size_t length) {
    /* Without their signs floats are in the order of their bits, and what is no number comes last. */
    uint32_t found = 0;
    for (size_t i = 0; i < length; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        bits &= 0x7fffffffu;
        found = bits > found ? bits : found;
    }
    float as_float;
    memcpy(&as_float, &found, sizeof found);
    return as_float;
}

void add_on_grid(const Addition *addition) {
    for (size_t start = 0; start < addition->count; start += BLOCK_LENGTH) {
        size_t length = length_from(start, addition->count), block = start / BLOCK_LENGTH;
        float *values = addition->values + start;
        int exponent = addition->exponents[block], reach = addition->reach;
        if (addition->single) {
            float *total = addition->single + start;
            round_block(total, values, length, exponent, reach);
            if (addition->maxima) memcpy(values, total, length * sizeof *values);
        } else if (!addition->total) {
            round_in_place(values, length, exponent, reach);
        } else {
            double *total = addition->total + start;
            if (addition->is_first) memset(total, 0, length * sizeof *total);
            add_block(total, values, length, exponent, reach);
            if (addition->maxima) to_floats(total, values, length);
        }
        if (addition->maxima) addition->maxima[block] = largest(values, length);
    }
}

void add_in_engine(void *context, void *addition) {
    (void)context;
    add_on_grid(addition);
}

void block_maxima(const float *values, size_t count, float *maxima) {
    for (size_t start = 0; start < count; start += BLOCK_LENGTH)
        maxima[start / BLOCK_LENGTH] = largest(values + start, length_from(start, count));
}
