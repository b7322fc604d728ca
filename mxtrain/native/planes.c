/* Pixels with their three colours side by side to three planes, one colour each, and back. */

#include <immintrin.h>
#include <string.h>

#include "crop.h"

/* Shuffles between 16 pixels, 3 times 16 bytes side by side, and their colours apart: for each byte its place in the
   16 bytes that it comes from, or -1 where it comes from others. */
#define APART(place, colour, third) FROM(3 * (place) + (colour) - 16 * (third))
#define FROM(at) ((at) >= 0 && (at) < 16 ? (at) : -1)
#define WOVEN(place, colour, third) ((16 * (third) + (place)) % 3 == (colour) ? (16 * (third) + (place)) / 3 : -1)
#define EIGHT(shuffle, from, ...)                                                                             \
    shuffle(from, __VA_ARGS__), shuffle(from + 1, __VA_ARGS__), shuffle(from + 2, __VA_ARGS__),               \
        shuffle(from + 3, __VA_ARGS__), shuffle(from + 4, __VA_ARGS__), shuffle(from + 5, __VA_ARGS__),       \
        shuffle(from + 6, __VA_ARGS__), shuffle(from + 7, __VA_ARGS__)
#define SIXTEEN(shuffle, ...) {EIGHT(shuffle, 0, __VA_ARGS__), EIGHT(shuffle, 8, __VA_ARGS__)}
#define THIRDS(shuffle, colour) {SIXTEEN(shuffle, colour, 0), SIXTEEN(shuffle, colour, 1), SIXTEEN(shuffle, colour, 2)}
/* [colour][third of the pixels] */
static const int8_t TO_APART[3][3][16] = {THIRDS(APART, 0), THIRDS(APART, 1), THIRDS(APART, 2)},
                    TO_WOVEN[3][3][16] = {THIRDS(WOVEN, 0), THIRDS(WOVEN, 1), THIRDS(WOVEN, 2)};

INLINE __m128i load(const void *bytes) { return _mm_loadu_si128(bytes); }

INLINE __m128i every_third(const uint8_t *pixels, int colour) {
    __m128i found = _mm_setzero_si128();
    for (int third = 0; third < 3; third++)
        found = _mm_or_si128(found, _mm_shuffle_epi8(load(pixels + 16 * third), load(TO_APART[colour][third])));
    return found;
}

/* 16 levels, each times the scale, less the offset; rounded after either, as NumPy does. */
INLINE void normalise_16(__m128i levels, __m256 scale, __m256 offset, float *to) {
    __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(levels));
    __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(levels, levels)));
    _mm256_storeu_ps(to, _mm256_sub_ps(_mm256_mul_ps(low, scale), offset));
    _mm256_storeu_ps(to + 8, _mm256_sub_ps(_mm256_mul_ps(high, scale), offset));
}

INLINE void row_to_floats(const uint8_t *pixels, size_t width, int colour, float scale, float offset,
                          float *to) {
    __m256 scales = _mm256_set1_ps(scale), offsets = _mm256_set1_ps(offset);
    size_t column = 0;
    for (; column + 16 <= width; column += 16)
        normalise_16(every_third(pixels + 3 * column, colour), scales, offsets, to + column);
    for (; column < width; column++) {
        float scaled = (float)pixels[3 * column + (size_t)colour] * scale;
        to[column] = scaled - offset;
    }
}

INLINE void row_to_bytes(const uint8_t *pixels, size_t width, int colour, uint8_t *to) {
    size_t column = 0;
    for (; column + 16 <= width; column += 16)
        _mm_storeu_si128((__m128i *)(void *)(to + column), every_third(pixels + 3 * column, colour));
    for (; column < width; column++) to[column] = pixels[3 * column + (size_t)colour];
}

void to_floats(const Pixels *image, const float scale[3], const float offset[3], float *planes) {
    for (int colour = 0; colour < 3; colour++)
        for (size_t row = 0; row < image->height; row++, planes += image->width)
            row_to_floats(image->pixels + (ptrdiff_t)row * image->stride, image->width, colour, scale[colour],
                          offset[colour], planes);
}

void to_bytes(const Pixels *image, uint8_t *planes) {
    for (int colour = 0; colour < 3; colour++)
        for (size_t row = 0; row < image->height; row++, planes += image->width)
            row_to_bytes(image->pixels + (ptrdiff_t)row * image->stride, image->width, colour, planes);
}

void read_pixels(const void *pixels, int row, uint8_t *colours, size_t stride) {
    const Pixels *image = pixels;
    for (int colour = 0; colour < 3; colour++, colours += stride)
        row_to_bytes(image->pixels + row * image->stride, image->width, colour, colours);
}

/* 16 bytes of each colour to 48, red, green and blue in turn. */
INLINE void weave(const uint8_t *colours, size_t stride, uint8_t *rgb) {
    __m128i red = load(colours), green = load(colours + stride), blue = load(colours + 2 * stride);
    for (int third = 0; third < 3; third++) {
        __m128i woven = _mm_shuffle_epi8(red, load(TO_WOVEN[0][third]));
        woven = _mm_or_si128(woven, _mm_shuffle_epi8(green, load(TO_WOVEN[1][third])));
        woven = _mm_or_si128(woven, _mm_shuffle_epi8(blue, load(TO_WOVEN[2][third])));
        _mm_storeu_si128((__m128i *)(void *)(rgb + 16 * third), woven);
    }
}

void weave_row(const uint8_t *colours, size_t stride, size_t width, uint8_t *rgb) {
    size_t column = 0;
    for (; column + 16 <= width; column += 16) weave(colours + column, stride, rgb + 3 * column);
    if (column == width) return;
    uint8_t rest[48];
    weave(colours + column, stride, rest);
    memcpy(rgb + 3 * column, rest, 3 * (width - column));
}
