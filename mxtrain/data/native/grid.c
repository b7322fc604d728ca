/* Sums on a grid, in loops that compilers turn into vectors. */

#include "grid.h"

#include <float.h>
#include <math.h>
#include <string.h>

void add_on_grid(double *restrict total, const float *restrict values, size_t count, const int32_t *exponents,
                 int reach) {
    for (size_t start = 0; start < count; start += BLOCK_LENGTH) {
        size_t stop = count - start < BLOCK_LENGTH ? count : start + BLOCK_LENGTH;
        int exponent = exponents[start / BLOCK_LENGTH];
        /* Beside 1.5 * 2^52 units a double has no digits below a unit: adding it rounds, ties to even. */
        double rounder = ldexp(1.5, exponent + 52), limit = ldexp(1.0, exponent + reach);
        for (size_t i = start; i < stop; i++) {
            double value = values[i], rounded = (value + rounder) - rounder;
            rounded = fabs(value) <= limit ? rounded : (double)INFINITY;
            total[i] += fabs(value) <= FLT_MAX ? rounded : (double)NAN;
        }
    }
}

void block_maxima(const float *restrict values, size_t count, float *restrict maxima) {
    for (size_t start = 0; start < count; start += BLOCK_LENGTH) {
        size_t stop = count - start < BLOCK_LENGTH ? count : start + BLOCK_LENGTH;
        /* Without their signs floats are in the order of their bits, and what is no number comes last. */
        uint32_t largest = 0;
        for (size_t i = start; i < stop; i++) {
            uint32_t bits;
            memcpy(&bits, values + i, sizeof bits);
            bits &= 0x7fffffffu;
            largest = bits > largest ? bits : largest;
        }
        memcpy(maxima + start / BLOCK_LENGTH, &largest, sizeof largest);
    }
}
