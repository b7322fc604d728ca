/* Rounding to multiples of a unit in float32: see mxtrain/optim/sums/grid.py. */

#ifndef MXTRAIN_ROUNDING_H
#define MXTRAIN_ROUNDING_H

#include <float.h>
#include <math.h>

/* What rounds a block's numbers: 2^23 units, beside which a float has no digits below a unit, and the largest number
   within reach. */
typedef struct {
    float rounder, limit;
} Unit;

static inline Unit unit_of(int exponent, int reach) {
    return (Unit){ldexpf(1.0f, exponent + 23), ldexpf(1.0f, exponent + reach)};
}

/* The nearest multiple, ties to even; infinity beyond the limit, and NaN for what is not finite. From the rounder on all
   floats are multiples. Zeros are without a sign. */
static inline float on_unit(float value, Unit unit) {
    float size = fabsf(value), rounded = (size + unit.rounder) - unit.rounder;
    rounded = copysignf(size < unit.rounder ? rounded : size, value) + 0.0f;
    rounded = size <= unit.limit ? rounded : INFINITY;
    return size <= FLT_MAX ? rounded : NAN;
}

#endif
