/* Pixels with their three colours side by side to three planes, one colour each. */

#include <immintrin.h>
#include <string.h>

#include "crop.h"

/* Where every third of 48 bytes is, from the one numbered `colour` on: a shuffle of each 16 of them. */
typedef struct {
    __m128i shuffles[3];
} Thirds;

static Thirds thirds_from(int colour) {
    Thirds thirds;
    for (int third = 0; third < 3; third++) {
        int8_t from[16];
        for (int place = 0; place < 16; place++) {
            int at = 3 * place + colour - 16 * third;
            from[place] = (int8_t)(at >= 0 && at < 16 ? at : -1);
        }
        memcpy(&thirds.shuffles[third], from, sizeof from);
    }
    return thirds;
}

INLINE __m128i every_third(const uint8_t *pixels, const Thirds *thirds) {
    __m128i found = _mm_setzero_si128();
    for (int third = 0; third < 3; third++) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(pixels + 16 * third));
        found = _mm_or_si128(found, _mm_shuffle_epi8(bytes, thirds->shuffles[third]));
    }
    return found;
}

/* 16 levels, each times the scale, less the offset; rounded after either, as NumPy does. */
INLINE void normalise_16(__m128i levels, __m256 scale, __m256 offset, float *to) {
    __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(levels));
    __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(levels, levels)));
    _mm256_storeu_ps(to, _mm256_sub_ps(_mm256_mul_ps(low, scale), offset));
    _mm256_storeu_ps(to + 8, _mm256_sub_ps(_mm256_mul_ps(high, scale), offset));
}

INLINE void row_to_floats(const uint8_t *pixels, size_t width, int colour, const Thirds *thirds, float scale,
                          float offset, float *to) {
    __m256 scales = _mm256_set1_ps(scale), offsets = _mm256_set1_ps(offset);
    size_t column = 0;
    for (; column + 16 <= width; column += 16)
        normalise_16(every_third(pixels + 3 * column, thirds), scales, offsets, to + column);
    for (; column < width; column++) {
        float scaled = (float)pixels[3 * column + (size_t)colour] * scale;
        to[column] = scaled - offset;
    }
}

INLINE void row_to_bytes(const uint8_t *pixels, size_t width, int colour, const Thirds *thirds, uint8_t *to) {
    size_t column = 0;
    for (; column + 16 <= width; column += 16)
        _mm_storeu_si128((__m128i *)(void *)(to + column), every_third(pixels + 3 * column, thirds));
    for (; column < width; column++) to[column] = pixels[3 * column + (size_t)colour];
}

void to_floats(const Pixels *image, const float scale[3], const float offset[3], float *planes) {
    for (int colour = 0; colour < 3; colour++) {
        Thirds thirds = thirds_from(colour);
        for (size_t row = 0; row < image->height; row++, planes += image->width)
            row_to_floats(image->pixels + (ptrdiff_t)row * image->stride, image->width, colour, &thirds, scale[colour],
                          offset[colour], planes);
    }
}

void to_bytes(const Pixels *image, uint8_t *planes) {
    for (int colour = 0; colour < 3; colour++) {
        Thirds thirds = thirds_from(colour);
        for (size_t row = 0; row < image->height; row++, planes += image->width)
            row_to_bytes(image->pixels + (ptrdiff_t)row * image->stride, image->width, colour, &thirds, planes);
    }
}
