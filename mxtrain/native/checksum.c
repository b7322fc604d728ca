/* zlib's CRC-32, by multiplying polynomials: 64 bytes at a time.

   Bytes far ahead count as their product with a power of x, modulo the polynomial, that is as far from them (Gopal and
   others, "Fast CRC computation for generic polynomials", 2009). So what was read is folded onto what comes next,
   until 16 bytes are left; these and what is behind them go bit by bit. */

#include "checksum.h"

#include <immintrin.h>

enum { LANES = 4, LANE_BYTES = 16 };

static uint32_t bit_by_bit(uint32_t state, const uint8_t *bytes, size_t num_bytes) {
    for (size_t place = 0; place < num_bytes; place++) {
        state ^= bytes[place];
        for (int bit = 0; bit < 8; bit++) state = state >> 1 ^ (0xEDB88320 & -(state & 1));
    }
    return state;
}

static inline __m128i load(const uint8_t *bytes) { return _mm_loadu_si128((const __m128i *)(const void *)bytes); }

/* A lane's 16 bytes moved onto other 16. */
static inline __m128i fold(__m128i lane, __m128i powers, __m128i onto) {
    __m128i low = _mm_clmulepi64_si128(lane, powers, 0x00), high = _mm_clmulepi64_si128(lane, powers, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

uint32_t checksum(const uint8_t *bytes, size_t num_bytes, uint32_t before) {
    uint32_t state = ~before;
    if (num_bytes >= LANES * LANE_BYTES) {
        /* x to the number of bits from each half of a lane to the place 4 lanes on, and one lane on */
        const __m128i far = _mm_set_epi64x(0x1C6E41596, 0x154442BD4), near = _mm_set_epi64x(0xCCAA009E, 0x1751997D0);
        __m128i lanes[LANES];
        for (int lane = 0; lane < LANES; lane++) lanes[lane] = load(bytes + lane * LANE_BYTES);
        lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128((int)state));
        bytes += LANES * LANE_BYTES, num_bytes -= LANES * LANE_BYTES;
        for (; num_bytes >= LANES * LANE_BYTES; bytes += LANES * LANE_BYTES, num_bytes -= LANES * LANE_BYTES)
            for (int lane = 0; lane < LANES; lane++)
                lanes[lane] = fold(lanes[lane], far, load(bytes + lane * LANE_BYTES));
        __m128i left = lanes[0];
        for (int lane = 1; lane < LANES; lane++) left = fold(left, near, lanes[lane]);
        for (; num_bytes >= LANE_BYTES; bytes += LANE_BYTES, num_bytes -= LANE_BYTES)
            left = fold(left, near, load(bytes));
        uint8_t last[LANE_BYTES];
        _mm_storeu_si128((__m128i *)(void *)last, left);
        state = bit_by_bit(0, last, sizeof last);
    }
    return ~bit_by_bit(state, bytes, num_bytes);
}
