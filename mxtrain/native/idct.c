/* 64 coefficients to 8 x 8 samples: libjpeg's accurate integer DCT (jidctint), as its vector code computes it.

   All 8 columns at once, then all 8 rows. Sums that it keeps in 16 bits wrap, and results saturate, as they do there.
 */

#include <immintrin.h>

#include "crop.h"

/* Cosines with 13 fractional bits. */
enum {
    F_0_298 = 2446,
    F_0_390 = 3196,
    F_0_541 = 4433,
    F_0_765 = 6270,
    F_0_899 = 7373,
    F_1_175 = 9633,
    F_1_501 = 12299,
    F_1_847 = 15137,
    F_1_961 = 16069,
    F_2_053 = 16819,
    F_2_562 = 20995,
    F_3_072 = 25172,
};

/* 8 pairs (one, other), and their products with two factors, summed. */
INLINE __m256i pair(__m128i one, __m128i other) {
    return _mm256_set_m128i(_mm_unpackhi_epi16(one, other), _mm_unpacklo_epi16(one, other));
}

INLINE __m256i weigh(__m256i pairs, int one, int other) {
    return _mm256_madd_epi16(pairs, _mm256_set1_epi32((int)((uint32_t)other << 16 | (uint16_t)one)));
}

INLINE __m128i divide(__m256i sums, int shift) {
    __m256i divided = _mm256_srai_epi32(sums, shift);
    return _mm_packs_epi32(_mm256_castsi256_si128(divided), _mm256_extracti128_si256(divided, 1));
}

/* One pass: 8 transforms side by side; results are divided by 2 to the `shift`, rounded. */
INLINE void transform(__m128i v[8], int shift) {
    __m256i in26 = pair(v[2], v[6]), in71 = pair(v[7], v[1]), in53 = pair(v[5], v[3]);
    __m256i mixed = pair(_mm_add_epi16(v[7], v[3]), _mm_add_epi16(v[5], v[1]));
    __m256i half = _mm256_set1_epi32(1 << (shift - 1));
    __m256i even0 = _mm256_add_epi32(_mm256_slli_epi32(_mm256_cvtepi16_epi32(_mm_add_epi16(v[0], v[4])), 13), half);
    __m256i even1 = _mm256_add_epi32(_mm256_slli_epi32(_mm256_cvtepi16_epi32(_mm_sub_epi16(v[0], v[4])), 13), half);
    __m256i even2 = weigh(in26, F_0_541, F_0_541 - F_1_847), even3 = weigh(in26, F_0_541 + F_0_765, F_0_541);
    __m256i mixed3 = weigh(mixed, F_1_175 - F_1_961, F_1_175), mixed4 = weigh(mixed, F_1_175, F_1_175 - F_0_390);
    __m256i odd[4] = {
        _mm256_add_epi32(weigh(in71, F_0_298 - F_0_899, -F_0_899), mixed3),
        _mm256_add_epi32(weigh(in53, F_2_053 - F_2_562, -F_2_562), mixed4),
        _mm256_add_epi32(weigh(in53, -F_2_562, F_3_072 - F_2_562), mixed3),
        _mm256_add_epi32(weigh(in71, -F_0_899, F_1_501 - F_0_899), mixed4),
    };
    __m256i even[4] = {
        _mm256_sub_epi32(even0, even3),
        _mm256_sub_epi32(even1, even2),
        _mm256_add_epi32(even1, even2),
        _mm256_add_epi32(even0, even3),
    };
    for (int place = 0; place < 4; place++) {
        v[3 - place] = divide(_mm256_add_epi32(even[place], odd[place]), shift);
        v[4 + place] = divide(_mm256_sub_epi32(even[place], odd[place]), shift);
    }
}

INLINE void transpose(__m128i v[8]) {
    for (int round = 0; round < 3; round++) {
        __m128i woven[8];
        for (int place = 0; place < 4; place++) {
            woven[2 * place] = _mm_unpacklo_epi16(v[place], v[place + 4]);
            woven[2 * place + 1] = _mm_unpackhi_epi16(v[place], v[place + 4]);
        }
        for (int place = 0; place < 8; place++) v[place] = woven[place];
    }
}

void inverse_dct(const int16_t *coefficients, const int16_t *quantizers, uint8_t *samples, size_t stride) {
    __m128i v[8], vertical = _mm_setzero_si128();
    for (int row = 0; row < 8; row++) {
        __m128i of_row = _mm_loadu_si128((const __m128i *)(const void *)(coefficients + 8 * row));
        if (row) vertical = _mm_or_si128(vertical, of_row);
        v[row] = _mm_mullo_epi16(of_row, _mm_loadu_si128((const __m128i *)(const void *)(quantizers + 8 * row)));
    }
    if (_mm_testz_si128(vertical, vertical)) { /* libjpeg only shifts then: what would saturate wraps */
        v[0] = _mm_slli_epi16(v[0], 2);
        for (int row = 1; row < 8; row++) v[row] = v[0];
    } else {
        transform(v, 11);
    }
    transpose(v);
    transform(v, 18);
    transpose(v);
    for (int row = 0; row < 8; row += 2, samples += 2 * stride) {
        __m128i two = _mm_xor_si128(_mm_packs_epi16(v[row], v[row + 1]), _mm_set1_epi8((char)0x80));
        _mm_storel_epi64((__m128i *)(void *)samples, two);
        _mm_storeh_pd((double *)(void *)(samples + stride), _mm_castsi128_pd(two));
    }
}
