/* Samples to RGB: chroma spread as libjpeg's smooth upsampling does, then its fixed-point YCbCr to RGB. */

#include <immintrin.h>
#include <string.h>

#include "crop.h"

INLINE int limited(int value, int last) { return value < 0 ? 0 : value > last ? last : value; }

/* Sums of 3 of `near` and 1 of `far`, or `near` alone where far is NULL. */
INLINE void add_rows(const uint8_t *restrict near, const uint8_t *restrict far, size_t count, uint16_t *restrict sums) {
    if (far)
        for (size_t place = 0; place < count; place++) sums[place] = (uint16_t)(3 * near[place] + far[place]);
    else
        for (size_t place = 0; place < count; place++) sums[place] = near[place];
}

/* Two pixels of each sum but the outer two: it is weighed 3 : 1 against the one before, and the one behind. */
INLINE void weigh_neighbours(const uint16_t *restrict sums, size_t count, int even, int odd, int shift,
                             uint8_t *restrict row) {
    for (size_t place = 0; place < count; place++) {
        uint16_t thrice = (uint16_t)(3 * sums[place + 1]);
        row[2 * place] = (uint8_t)((uint16_t)(thrice + sums[place] + even) >> shift);
        row[2 * place + 1] = (uint8_t)((uint16_t)(thrice + sums[place + 2] + odd) >> shift);
    }
}

/* A row of one chroma component at luma's width: `count` samples from `first` on, spread across and, with two rows of
   luma to one of chroma, down as well. `near` and `far` begin at the component's column `origin`, its last column is
   `last`; `sums` is scratch. */
INLINE void spread(const uint8_t *near, const uint8_t *far, int origin, int first, int count, int last, uint16_t *sums,
                   uint8_t *row) {
    int start = limited(first - 1, last), num_inner = limited(first + count, last) - start + 1,
        skipped = start - (first - 1);
    uint16_t *inner = sums + skipped;
    add_rows(near + (start - origin), far ? far + (start - origin) : NULL, (size_t)num_inner, inner);
    if (skipped) sums[0] = inner[0]; /* past the picture's edges, the outermost sample again */
    if (skipped + num_inner < count + 2) sums[count + 1] = inner[num_inner - 1];
    if (far) weigh_neighbours(sums, (size_t)count, 8, 7, 4, row);
    else weigh_neighbours(sums, (size_t)count, 1, 2, 2, row);
}

/* 16 bytes as 16-bit numbers. */
INLINE __m256i widen(const uint8_t *bytes) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)bytes));
}

INLINE __m128i narrow(__m256i values) {
    return _mm_packus_epi16(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
}

/* value x factor / 65536, rounded. */
INLINE __m256i scaled(__m256i value, int factor) {
    __m256i twice = _mm256_mulhi_epi16(_mm256_add_epi16(value, value), _mm256_set1_epi16((short)factor));
    return _mm256_srai_epi16(_mm256_add_epi16(twice, _mm256_set1_epi16(1)), 1);
}

/* libjpeg's fixed-point factors of 65536, less whole ones: 1.402, 1.772, -0.34414 and -0.71414. */
enum { RED = 91881 - 65536, BLUE = 116130 - 2 * 65536, GREEN_BLUE = -22554, GREEN_RED = 65536 - 46802 };

INLINE __m256i green_of(__m256i cb, __m256i cr) {
    __m256i factors = _mm256_set1_epi32((int)((uint32_t)GREEN_RED << 16 | (uint16_t)GREEN_BLUE)),
            half = _mm256_set1_epi32(1 << 15);
    __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), factors),
            high = _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), factors);
    low = _mm256_srai_epi32(_mm256_add_epi32(low, half), 16),
    high = _mm256_srai_epi32(_mm256_add_epi32(high, half), 16);
    return _mm256_sub_epi16(_mm256_packs_epi32(low, high), cr);
}

/* 16 pixels. */
INLINE void to_rgb_16(const uint8_t *luma, const uint8_t *blue, const uint8_t *red, uint8_t *colours, size_t stride) {
    __m256i middle = _mm256_set1_epi16(128), y = widen(luma);
    __m256i cb = _mm256_sub_epi16(widen(blue), middle), cr = _mm256_sub_epi16(widen(red), middle);
    __m256i r = _mm256_add_epi16(_mm256_add_epi16(y, cr), scaled(cr, RED));
    __m256i b = _mm256_add_epi16(_mm256_add_epi16(y, _mm256_add_epi16(cb, cb)), scaled(cb, BLUE));
    _mm_storeu_si128((__m128i *)(void *)colours, narrow(r));
    _mm_storeu_si128((__m128i *)(void *)(colours + stride), narrow(_mm256_add_epi16(y, green_of(cb, cr))));
    _mm_storeu_si128((__m128i *)(void *)(colours + 2 * stride), narrow(b));
}

void read_decoded(const void *decoded, int row, uint8_t *colours, size_t stride) {
    const Decoded *from = decoded;
    const Jpeg *jpeg = from->jpeg;
    const Planes *planes = from->planes;
    const Box *box = from->box;
    int last_row = (jpeg->height + jpeg->vertical - 1) / jpeg->vertical - 1, first_row = planes->first_row * 8;
    int last_column = (jpeg->width + jpeg->horizontal - 1) / jpeg->horizontal - 1,
        first_column = planes->first_column * 8;
    int first = box->left / jpeg->horizontal, count = (box->left + box->width - 1) / jpeg->horizontal - first + 1;
    size_t length = (size_t)(box->width + 4);
    uint16_t *sums = (uint16_t *)(void *)(from->rows + 2 * length);
    row += box->top;
    const uint8_t *chroma[2];
    int near = row / jpeg->vertical, far = limited(row % 2 ? near + 1 : near - 1, last_row);
    for (int component = 1; component < NUM_COMPONENTS; component++) {
        const uint8_t *samples = planes->samples[component];
        const uint8_t *near_row = samples + (size_t)(near - first_row) * planes->stride[component];
        const uint8_t *far_row =
            jpeg->vertical == 2 ? samples + (size_t)(far - first_row) * planes->stride[component] : NULL;
        uint8_t *wide = from->rows + (size_t)(component - 1) * length;
        if (jpeg->horizontal == 2) spread(near_row, far_row, first_column, first, count, last_column, sums, wide);
        chroma[component - 1] = jpeg->horizontal == 2 ? wide + box->left % 2 : near_row + box->left - first_column;
    }
    const uint8_t *luma = planes->samples[0] + (size_t)(row - first_row * jpeg->vertical) * planes->stride[0];
    luma += box->left - first_column * jpeg->horizontal;
    for (int column = 0; column < box->width; column += 16)
        to_rgb_16(luma + column, chroma[0] + column, chroma[1] + column, colours + column, stride);
}
