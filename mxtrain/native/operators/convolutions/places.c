/* Six places and a panel of outputs stay in registers through all taps, or twelve places and half a panel where no more of it
   is used. An output is summed up in one order wherever its place is among them. */

#include "convolutions/places.h"

#include "channels/activated.h"
#include "sizes.h"

#define HALF_ROWS (2 * ROWS)
#define FEW_BLOCKS 12 /* are multiplied before the next panel has come from the cache of the third level, if it is asked for then */

/* Have rows of the next panel, each a line of the cache, come while this one is multiplied with a few places. */
__attribute__((noinline)) static void ask_for(const float *panel, size_t rows) {
    for (size_t row = 0; row < rows; row++) _mm_prefetch((const char *)(panel + row * PANEL), _MM_HINT_T1);
}

/* `count` places and `halves` halves of a panel, which the compiler knows. */
INLINE void multiply_block(const size_t count, const size_t halves, const Activation activation, Places places,
                           const float *panel, size_t column, size_t outputs) {
    __m256 sums[HALF_ROWS][2];
#pragma GCC unroll 12
    for (size_t row = 0; row < count; row++)
#pragma GCC unroll 2
        for (size_t half = 0; half < halves; half++) sums[row][half] = _mm256_loadu_ps(panel + half * LANES);
    panel += PANEL;
    for (size_t tap = 0; tap < places.taps; tap++) {
        const float *from[HALF_ROWS];
#pragma GCC unroll 12
        for (size_t row = 0; row < count; row++) from[row] = places.rows[row * places.taps + tap];
        for (size_t at = 0; at < places.depth; at++, panel += PANEL) {
            __m256 low = _mm256_loadu_ps(panel), high = halves > 1 ? _mm256_loadu_ps(panel + LANES) : low;
#pragma GCC unroll 12
            for (size_t row = 0; row < count; row++) {
                __m256 factor = _mm256_broadcast_ss(from[row] + at);
                sums[row][0] = _mm256_fmadd_ps(factor, low, sums[row][0]);
                if (halves > 1) sums[row][1] = _mm256_fmadd_ps(factor, high, sums[row][1]);
            }
        }
    }
#pragma GCC unroll 12
    for (size_t row = 0; row < count; row++)
#pragma GCC unroll 2
        for (size_t half = 0; half < halves; half++) {
            size_t at = column + half * LANES, left = outputs == halves * LANES ? LANES : outputs - half * LANES;
            __m256 numbers = sums[row][half];
            if (places.added) numbers = _mm256_add_ps(numbers, load(places.added[row] + at, left));
            store(places.to[row] + at, left, activated(activation, numbers));
        }
}

#define BLOCK(count, halves) \
    case count: multiply_block(count, halves, activation, block, panel, column, outputs); break;

INLINE void multiply_all(const Activation activation, Places places, const float *panel, size_t column, size_t outputs) {
    int is_half = outputs <= LANES;
    size_t most = is_half ? HALF_ROWS : ROWS, blocks = (places.count + most - 1) / most; /* of about as many places each */
    if (!blocks) return;
    size_t fewer = places.count / blocks, larger = places.count % blocks, first = 0, count;
    size_t depth = 1 + places.taps * places.depth, part = blocks > FEW_BLOCKS ? 0 : (depth + blocks - 1) / blocks;
    for (size_t at = 0; at < blocks; at++, first += count) {
        count = fewer + (at < larger);
        Places block = places_from(places, first, count);
        if (part) ask_for(panel + (depth + at * part) * PANEL, part);
        if (is_half)
            switch (count) {
                BLOCK(1, 1)
                BLOCK(2, 1)
                BLOCK(3, 1)
                BLOCK(4, 1)
                BLOCK(5, 1)
                BLOCK(6, 1)
                BLOCK(7, 1)
                BLOCK(8, 1)
                BLOCK(9, 1)
                BLOCK(10, 1)
                BLOCK(11, 1)
                BLOCK(12, 1)
            }
        else
            switch (count) {
                BLOCK(1, 2)
                BLOCK(2, 2)
                BLOCK(3, 2)
                BLOCK(4, 2)
                BLOCK(5, 2)
                BLOCK(6, 2)
            }
    }
}

FMA void multiply_places(Activation activation, Places places, const float *panel, size_t column, size_t outputs) {
    FOR_ACTIVATIONS(activation, multiply_all, places, panel, column, outputs)
}
