/* Pictures in another size, to the bit as OpenCV's INTER_LINEAR makes them of 8 bits.

   A level lies between two of a row, and these between two rows, by weights of 2048 in all. Of 8 results side by side
   the sources have to lie within 16 pixels: a picture may shrink to a little more than half. */

#include <stdlib.h>

#include "crop.h"

enum { ONE = 2048, GROUP = 8, WINDOW = 16 };

/* A result is between the pixel `first` and the next one. */
typedef struct {
    int first;
    int16_t weights[2];
} Place;

INLINE int16_t rounded(float value) { return (int16_t)_mm_cvtss_si32(_mm_set_ss(value)); }

/* `scale`: what is one pixel of the result. */
static Place place_of(int number, double scale) {
    float at = (float)((number + 0.5) * scale - 0.5);
    int first = (int)at - (at < 0); /* it is above -1 */
    at -= (float)first;
    return (Place){first, {rounded((1.f - at) * ONE), rounded(at * ONE)}};
}

static double scale_of(int from, int to) { return 1. / ((double)to / from); }

/* 8 results side by side: where their sources begin, which pair of pixels from there each takes, and the weights. */
typedef struct {
    int start;
    uint8_t pairs[2 * GROUP];
    int16_t weights[2 * GROUP];
} Group;

/* The groups of a row, the last results being repeated; NOT_OURS where sources lie too far apart. */
static int group(int from, int to, int num_groups, Group *groups) {
    double scale = scale_of(from, to);
    for (int number = 0; number < num_groups * GROUP; number++) {
        Place place = place_of(number < to ? number : to - 1, scale);
        if (place.first < 0 || place.first >= from - 1)
            place = (Place){place.first < 0 ? 0 : from - 1, {ONE, 0}}; /* at the edges, the outermost pixel alone */
        Group *of = groups + number / GROUP;
        int within = number % GROUP;
        if (!within) of->start = place.first;
        int offset = place.first - of->start;
        if (offset > WINDOW - 2) return NOT_OURS;
        of->pairs[2 * within] = (uint8_t)offset, of->pairs[2 * within + 1] = (uint8_t)(offset + 1);
        memcpy(of->weights + 2 * within, place.weights, sizeof place.weights);
    }
    return OK;
}

/* 8 sums of 11 bits and the level's 8, less the lowest 4. */
INLINE __m256i weighed(const uint8_t *row, const Group *group) {
    __m128i window = _mm_loadu_si128((const __m128i *)(const void *)(row + group->start));
    __m128i pairs = _mm_shuffle_epi8(window, _mm_loadu_si128((const __m128i *)(const void *)group->pairs));
    __m256i weights = _mm256_loadu_si256((const __m256i *)(const void *)group->weights);
    return _mm256_srli_epi32(_mm256_madd_epi16(_mm256_cvtepu8_epi16(pairs), weights), 4);
}

static void weigh_columns(const uint8_t *row, const Group *groups, int num_groups, int16_t *to) {
    for (int number = 0; number < num_groups; number += 2, to += 2 * GROUP) {
        __m256i both = _mm256_packs_epi32(weighed(row, groups + number), weighed(row, groups + number + 1));
        _mm256_storeu_si256((__m256i *)(void *)to, _mm256_permute4x64_epi64(both, 0xD8));
    }
}

/* Each product loses its lower 16 bits by itself, as OpenCV's does. */
static void weigh_rows(const int16_t *upper, const int16_t *lower, const int16_t weights[2], int count, uint8_t *to) {
    __m256i of_upper = _mm256_set1_epi16(weights[0]), of_lower = _mm256_set1_epi16(weights[1]);
    for (int place = 0; place < count; place += 16) {
        __m256i one = _mm256_loadu_si256((const __m256i *)(const void *)(upper + place));
        __m256i other = _mm256_loadu_si256((const __m256i *)(const void *)(lower + place));
        __m256i sum = _mm256_add_epi16(_mm256_mulhi_epi16(one, of_upper), _mm256_mulhi_epi16(other, of_lower));
        sum = _mm256_srli_epi16(_mm256_add_epi16(sum, _mm256_set1_epi16(2)), 2);
        __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
        _mm_storeu_si128((__m128i *)(void *)(to + place), bytes);
    }
}

/* What a resize works in: rows of the source, its last two rows in the result's width, and a row of the result. */
typedef struct {
    const Rows *source;
    Group *groups;
    int num_groups, held[2]; /* the rows whose columns are weighed already */
    int16_t *weighed[2];
    uint8_t *colours, *result;
    size_t stride, width; /* from one colour to the next, of the source and of the result */
} Work;

/* A row of the source in the result's width; two that follow each other are held at once. */
static const int16_t *weighed_row(Work *work, int row) {
    int last = work->source->height - 1, within = row < 0 ? 0 : row > last ? last : row, slot = within % 2;
    if (work->held[slot] != within) {
        work->held[slot] = within;
        work->source->read(work->source->of, within, work->colours, work->stride);
        for (size_t colour = 0; colour < 3; colour++)
            weigh_columns(work->colours + colour * work->stride, work->groups, work->num_groups,
                          work->weighed[slot] + colour * work->width);
    }
    return work->weighed[slot];
}

static void resize_rows(Work *work, int height, int width, uint8_t *rgb) {
    double scale = scale_of(work->source->height, height);
    for (int row = 0; row < height; row++, rgb += 3 * (size_t)width) {
        Place place = place_of(row, scale);
        const int16_t *upper = weighed_row(work, place.first), *lower = weighed_row(work, place.first + 1);
        weigh_rows(upper, lower, place.weights, (int)(3 * work->width), work->result);
        weave_row(work->result, work->width, (size_t)width, rgb);
    }
}

int resize(const Rows *source, int height, int width, uint8_t *rgb) {
    int num_groups = (width + 2 * GROUP - 1) / (2 * GROUP) * 2;
    Work work = {.source = source, .num_groups = num_groups, .held = {-1, -1}};
    work.width = (size_t)num_groups * GROUP, work.stride = (size_t)source->width + ROW_ROOM;
    size_t of_groups = (size_t)num_groups * sizeof(Group), of_weighed = 3 * work.width * sizeof(int16_t);
    uint8_t *memory = malloc(of_groups + 2 * of_weighed + 3 * work.width + 3 * work.stride);
    if (!memory) return NO_MEMORY;
    work.groups = (Group *)(void *)memory;
    work.weighed[0] = (int16_t *)(void *)(memory + of_groups);
    work.weighed[1] = (int16_t *)(void *)(memory + of_groups + of_weighed);
    work.result = memory + of_groups + 2 * of_weighed;
    work.colours = work.result + 3 * work.width;
    int failed = group(source->width, width, num_groups, work.groups);
    if (!failed) resize_rows(&work, height, width, rgb);
    free(memory);
    return failed;
}
