/* Sums of two rounded arrays: a block is still in the core's cache when its squares are added. */

#include "weights/rounded_sums.h"

#include "../../rounding.h"
#include "weights/squares.h"

void add_rounded(float *one, float *other, Block *of_one, Block *of_other, size_t num_blocks) {
    for (size_t at = 0; at < num_blocks; at++) {
        Block *block = of_one + at;
        Unit unit = unit_of(block->exponent, block->reach);
        float *restrict mine = one + block->start, *restrict theirs = other + block->start;
        for (int i = 0; i < block->length; i++) mine[i] = theirs[i] = on_unit(mine[i], unit) + on_unit(theirs[i], unit);
        block->square = square(mine, (size_t)block->length, &block->largest);
        of_other[at].square = block->square;
        of_other[at].largest = block->largest;
    }
}
