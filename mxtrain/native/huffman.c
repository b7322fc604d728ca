/* Bits to coefficients, and these to samples, of the units that a box needs.

   Without restart markers every unit up to the last one needed is read, but only the needed ones are computed. With
   them, the stretches between two markers that hold no needed unit are stepped over. */

#include "crop.h"

/* What runs over the end goes to place 64. */
const uint8_t NATURAL[64 + BEHIND_BLOCK] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,
    6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31,
    39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
};

static uint32_t *fill(uint32_t *to, uint32_t entry, size_t count) {
    for (size_t place = 0; place < count; place++) to[place] = entry;
    return to + count;
}

/* The entries of a code of `length` bits: one for each of the numbers behind it, where they fit. */
static void define(uint32_t symbol, uint32_t length, int is_ac, uint32_t *to) {
    uint32_t zeros = is_ac ? symbol >> 4 : 0, size = is_ac ? symbol & 15 : symbol, left = LOOKED_UP - length;
    int is_run = is_ac && !size && zeros != 0 && zeros != 15;
    if (is_ac && symbol == 0) zeros = BEHIND_BLOCK;
    if (size > left || is_run) {
        fill(to, symbol << 8 | length, (size_t)1 << left);
        return;
    }
    uint32_t common = zeros << 8 | IS_RESOLVED | (length + size), half = size ? 1u << (size - 1) : 0;
    if (!size) fill(to, common, (size_t)1 << left);
    for (uint32_t number = 2 * half; number > half; number--)
        to = fill(to, (uint32_t)(uint16_t)(1 - number) << 16 | common, (size_t)1 << (left - size));
    for (uint32_t number = half; number < 2 * half; number++)
        to = fill(to, number << 16 | common, (size_t)1 << (left - size));
}

static Pair pair_of(const uint32_t *lookup, uint32_t bits) {
    uint32_t first = lookup[bits], zeros = first >> 8 & 255, length = first & LENGTH;
    if (!(first & IS_RESOLVED)) return (Pair){0};
    if (zeros == BEHIND_BLOCK) return (Pair){.length = (uint8_t)length, .behind = BEHIND_BLOCK};
    uint8_t next = (uint8_t)(zeros + 1);
    Pair pair = {(uint8_t)length, (uint8_t)zeros, next, next, {(int16_t)(first >> 16), 0}};
    uint32_t second = lookup[bits << length & ((1 << LOOKED_UP) - 1)];
    if (!(second & IS_RESOLVED) || length + (second & LENGTH) > LOOKED_UP) return pair;
    pair.length = (uint8_t)(length + (second & LENGTH));
    pair.behind = (uint8_t)(next + (second >> 8 & 255));
    if (pair.behind >= BEHIND_BLOCK) return pair;
    pair.second = pair.behind++;
    pair.numbers[1] = (int16_t)(second >> 16);
    return pair;
}

int define_codes(const uint8_t counts[16], int is_ac, Codes *codes) {
    const uint8_t *symbols = counts + 16;
    int place = 0;
    int32_t code = 0;
    memset(codes->lookup, 0, sizeof codes->lookup);
    for (int length = 1; length <= 16; length++, code <<= 1) {
        codes->to_symbol[length] = place - code;
        if (code + counts[length - 1] >= 1 << length) return NOT_OURS; /* too many, or one that is all ones */
        for (int of_length = 0; of_length < counts[length - 1]; of_length++, place++, code++) {
            if (!is_ac && symbols[place] > 15) return NOT_OURS;
            codes->symbols[place] = symbols[place];
            if (length <= LOOKED_UP)
                define(symbols[place], (uint32_t)length, is_ac, codes->lookup + ((size_t)code << (LOOKED_UP - length)));
        }
        codes->last_code[length] = counts[length - 1] ? code - 1 : -1;
    }
    for (uint32_t bits = 0; is_ac && bits < 1 << LOOKED_UP; bits++) codes->pairs[bits] = pair_of(codes->lookup, bits);
    return OK;
}

/* One unit's blocks, to samples where it is needed. */
INLINE int decode_unit(const Jpeg *jpeg, Codes codes[2][2], const Planes *planes, int row, int column, Bits *from,
                       int predictions[NUM_COMPONENTS]) {
    int is_needed = row >= planes->first_row && column >= planes->first_column && column < planes->end_column;
    int16_t coefficients[BLOCK_ROOM] __attribute__((aligned(32)));
    for (int component = 0; component < NUM_COMPONENTS; component++) {
        int high = component ? 1 : jpeg->vertical, wide = component ? 1 : jpeg->horizontal;
        const Codes *dc = &codes[0][jpeg->table[0][component]], *ac = &codes[1][jpeg->table[1][component]];
        for (int block = 0; block < high * wide; block++) {
            int difference;
            if (is_needed) clear(coefficients);
            if (read_dc(dc, from, &difference) || read_ac(ac, from, coefficients, 0)) return NOT_OURS;
            if (__builtin_add_overflow(predictions[component], difference, &predictions[component])) return NOT_OURS;
            if (!is_needed) continue;
            size_t top = (size_t)((row - planes->first_row) * high + block / wide) * 8;
            size_t left = (size_t)((column - planes->first_column) * wide + block % wide) * 8;
            coefficients[0] = (int16_t)predictions[component];
            inverse_dct(coefficients, jpeg->quantizers[component],
                        planes->samples[component] + top * planes->stride[component] + left, planes->stride[component]);
        }
    }
    return OK;
}

/* Behind the last needed one of the units `start` to `end`; `start` where none is needed. */
static int needed_until(const Planes *planes, int num_columns, int start, int end) {
    int last_row = (end - 1) / num_columns;
    if (last_row >= planes->end_row) last_row = planes->end_row - 1;
    for (int row = last_row; row >= start / num_columns && row >= planes->first_row; row--) {
        int first = row * num_columns + planes->first_column, behind = row * num_columns + planes->end_column;
        if (first < end && behind > start) return behind < end ? behind : end;
    }
    return start;
}

ptrdiff_t next_stretch(const uint8_t **at, const uint8_t *end, uint8_t *unstuffed) {
    uint8_t *to = unstuffed;
    for (const uint8_t *escape; (escape = memchr(*at, 0xFF, (size_t)(end - *at))) && escape + 1 < end;
         *at = escape + 2) {
        size_t length = (size_t)(escape - *at);
        if (to) memcpy(to, *at, length + 1), to += length;
        if (escape[1]) {
            *at = escape;
            if (to) memset(to, 0, PADDING);
            return to - unstuffed;
        }
        if (to) to++;
    }
    return -1;
}

/* A stretch's units, `start` to `end`; `is_all`: nothing but padding may follow. */
INLINE int decode_stretch(const Jpeg *jpeg, Codes codes[2][2], const Planes *planes, int start, int end,
                          const uint8_t *data, ptrdiff_t length, int is_all) {
    int num_columns = (jpeg->width + 8 * jpeg->horizontal - 1) / (8 * jpeg->horizontal),
        predictions[NUM_COMPONENTS] = {0, 0, 0};
    Bits from = {0, 0, data};
    ptrdiff_t left = 8 * length;
    for (int unit = start; unit < end; unit++) {
        if (decode_unit(jpeg, codes, planes, unit / num_columns, unit % num_columns, &from, predictions))
            return NOT_OURS;
        left = 8 * (length - (from.next - data)) + from.count;
        if (left < 0) return NOT_OURS;
    }
    return is_all && left >= 8 ? NOT_OURS : OK;
}

int decode_units(const Jpeg *jpeg, const Planes *planes, uint8_t *unstuffed) {
    Codes codes[2][2];
    for (int is_ac = 0; is_ac < 2; is_ac++)
        for (int table = 0; table < 2; table++)
            if (jpeg->codes[is_ac][table] && define_codes(jpeg->codes[is_ac][table], is_ac, &codes[is_ac][table]))
                return NOT_OURS;
    int num_rows = (jpeg->height + 8 * jpeg->vertical - 1) / (8 * jpeg->vertical);
    int num_columns = (jpeg->width + 8 * jpeg->horizontal - 1) / (8 * jpeg->horizontal);
    int num_units = num_rows * num_columns, interval = jpeg->interval ? jpeg->interval : num_units;
    int behind = (planes->end_row - 1) * num_columns + planes->end_column;
    const uint8_t *at = jpeg->scan, *file_end = jpeg->scan + jpeg->scan_bytes;
    for (int start = 0, stretch = 0; start < behind; start += interval, stretch++) {
        int end = start + interval < num_units ? start + interval : num_units;
        int until = needed_until(planes, num_columns, start, end);
        ptrdiff_t length = next_stretch(&at, file_end, until > start ? unstuffed : NULL);
        if (length < 0 || at[1] != (end == num_units ? END : RESTART_0 + stretch % 8)) return NOT_OURS;
        at += 2;
        if (until > start && decode_stretch(jpeg, codes, planes, start, until, unstuffed, length, until == end))
            return NOT_OURS;
    }
    return OK;
}
