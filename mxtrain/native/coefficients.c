/* A whole file to coefficients: its markers, and the scans between them. */

#include <stdlib.h>

#include "coefficients.h"

const char NO_MORE_MEMORY[] = "not enough memory", DAMAGED[] = "damaged coded data";
static const char CUT_SHORT[] = "cut short", BAD_HEADER[] = "a damaged header",
                  OTHER_KIND[] = "neither baseline nor progressive with Huffman codes and 8 bits",
                  OTHER_SAMPLING[] = "sampled as one scan cannot hold it",
                  INCOMPLETE[] = "not all scans, or one again";

static int ceiling(int dividend, int divisor) { return (dividend + divisor - 1) / divisor; }

/* The blocks, for which the file must have a bit each at least, as a short one may announce a huge picture. */
static const char *make_room(Coefficients *picture, size_t num_bytes, const Coefficients *expected) {
    size_t num_blocks = 0;
    if (expected) {
        if (picture->is_progressive || picture->num_components != expected->num_components) return OTHER_KIND;
        picture->is_compared = 1;
        for (int place = 0; place < picture->num_components; place++) {
            const Component *other = &expected->components[place];
            if (picture->components[place].columns != other->columns || picture->components[place].rows != other->rows)
                return OTHER_SAMPLING;
            picture->components[place].blocks = other->blocks;
        }
        return NULL;
    }
    for (int place = 0; place < picture->num_components; place++)
        num_blocks += (size_t)picture->components[place].columns * (size_t)picture->components[place].rows;
    if (num_blocks > 8 * num_bytes) return DAMAGED;
    picture->blocks = calloc(num_blocks, 64 * sizeof(int16_t));
    if (!picture->blocks) return NO_MORE_MEMORY;
    int16_t *blocks = picture->blocks;
    for (int place = 0; place < picture->num_components; place++) {
        Component *component = &picture->components[place];
        component->blocks = blocks;
        blocks += 64 * (size_t)component->columns * (size_t)component->rows;
    }
    return NULL;
}

/* The frame's data: precision, height, width, number of components, and (id, sampling, table) of each. */
static const char *read_frame(const uint8_t *data, int length, int marker, size_t num_bytes,
                              const Coefficients *expected, Coefficients *picture) {
    if (picture->has_frame || length < 6 || length != 6 + 3 * data[5]) return BAD_HEADER;
    if (data[0] != 8 || (data[5] != 1 && data[5] != 3)) return OTHER_KIND;
    int across = 1, down = 1, unit_blocks = 0;
    picture->has_frame = 1, picture->is_progressive = marker == PROGRESSIVE;
    picture->height = big_endian(data + 1), picture->width = big_endian(data + 3), picture->num_components = data[5];
    if (!picture->height || !picture->width || picture->height > MAX_SIDE || picture->width > MAX_SIDE)
        return BAD_HEADER;
    for (int place = 0; place < picture->num_components; place++) {
        Component *component = &picture->components[place];
        const uint8_t *of_frame = data + 6 + 3 * place;
        component->id = of_frame[0], component->table = of_frame[2];
        component->horizontal = of_frame[1] >> 4, component->vertical = of_frame[1] & 15;
        if (component->table > 3) return BAD_HEADER;
        if (!component->horizontal || component->horizontal > 4 || !component->vertical || component->vertical > 4)
            return BAD_HEADER;
        for (int before = 0; before < place; before++)
            if (picture->components[before].id == component->id) return BAD_HEADER;
        if (picture->num_components == 1) component->horizontal = component->vertical = 1; /* whatever it says */
        if (component->horizontal > across) across = component->horizontal;
        if (component->vertical > down) down = component->vertical;
        unit_blocks += component->horizontal * component->vertical;
        memset(component->missing, -1, sizeof component->missing);
    }
    if (unit_blocks > MAX_UNIT_BLOCKS) return OTHER_SAMPLING;
    picture->unit_columns = ceiling(picture->width, 8 * across);
    picture->unit_rows = ceiling(picture->height, 8 * down);
    for (int place = 0; place < picture->num_components; place++) {
        Component *component = &picture->components[place];
        component->columns = ceiling(picture->width * component->horizontal, 8 * across);
        component->rows = ceiling(picture->height * component->vertical, 8 * down);
    }
    return make_room(picture, num_bytes, expected);
}

/* Marks what a scan brings as there; refused where it was there before, or where what it builds on is not. */
static int is_next(const Scan *scan, Component *component) {
    if (scan->first && component->missing[0] < 0) return 0;
    for (int place = scan->first; place <= scan->last; place++) {
        if (component->missing[place] != (scan->high ? scan->high : -1)) return 0;
        component->missing[place] = (int8_t)scan->low;
    }
    return 1;
}

/* The scan marker's data: number of components, (id, tables) of each, first and last coefficient, bits. */
static const char *read_scan_header(const uint8_t *data, int length, Coefficients *picture, Scan *scan,
                                    Codes codes[2][MAX_COMPONENTS]) {
    if (!picture->has_frame || length < 6 || length != 4 + 2 * data[0] || data[0] > picture->num_components)
        return BAD_HEADER;
    const uint8_t *progression = data + 1 + 2 * data[0];
    memset(scan, 0, sizeof *scan);
    scan->num_components = data[0], scan->is_progressive = picture->is_progressive;
    scan->is_compared = picture->is_compared;
    scan->first = progression[0], scan->last = progression[1];
    scan->high = progression[2] >> 4, scan->low = progression[2] & 15;
    if (picture->is_progressive) {
        if (scan->first ? scan->last < scan->first || scan->last > 63 || scan->num_components != 1 : scan->last)
            return BAD_HEADER;
        if (scan->low > 13 || (scan->high && scan->low != scan->high - 1)) return BAD_HEADER;
    } else if (scan->first || scan->last != 63 || scan->high || scan->low) return BAD_HEADER;
    for (int place = 0, in_frame = 0; place < scan->num_components; place++, in_frame++) {
        const uint8_t *of_scan = data + 1 + 2 * place;
        while (in_frame < picture->num_components && picture->components[in_frame].id != of_scan[0]) in_frame++;
        if (in_frame == picture->num_components) return BAD_HEADER; /* missing, or out of order */
        Component *component = scan->components[place] = &picture->components[in_frame];
        if (!is_next(scan, component)) return INCOMPLETE;
        if (!component->is_seen) {
            if (!picture->tables.has_quantizers[component->table]) return BAD_HEADER;
            memcpy(component->quantizers, picture->tables.quantizers[component->table], sizeof component->quantizers);
            component->is_seen = 1;
        }
        int is_used[2] = {!scan->first && !scan->high, scan->last > 0}, table[2] = {of_scan[1] >> 4, of_scan[1] & 15};
        for (int is_ac = 0; is_ac < 2; is_ac++) {
            if (!is_used[is_ac]) continue;
            const uint8_t *counts = table[is_ac] > 3 ? NULL : picture->tables.codes[is_ac][table[is_ac]];
            if (!counts || define_codes(counts, is_ac, &codes[is_ac][place])) return BAD_HEADER;
        }
        scan->dc[place] = &codes[0][place], scan->ac[place] = &codes[1][place];
    }
    return NULL;
}

static int read_block(Scan *scan, int place, Bits *from, int16_t *block, int is_compared) {
    if (scan->is_progressive) return read_progressive(scan, place, from, block);
    int16_t coefficients[BLOCK_ROOM] __attribute__((aligned(32)));
    int difference;
    clear(coefficients);
    Bits near = *from; /* in registers */
    if (read_dc(scan->dc[place], &near, &difference)) return NOT_OURS;
    if (read_ac(scan->ac[place], &near, coefficients, 1)) return NOT_OURS;
    *from = near;
    int sum = scan->predictions[place] + difference;
    if (sum < INT16_MIN || sum > INT16_MAX) return NOT_OURS;
    scan->predictions[place] = sum;
    coefficients[0] = (int16_t)sum;
    if (is_compared) return memcmp(block, coefficients, 64 * sizeof *block) ? NOT_OURS : OK;
    memcpy(block, coefficients, 64 * sizeof *block);
    return OK;
}

/* A unit of several components; of its blocks some may be outside the picture. */
static int read_unit(Scan *scan, int row, int column, Bits *from) {
    for (int place = 0; place < scan->num_components; place++) {
        const Component *component = scan->components[place];
        for (int down = 0; down < component->vertical; down++)
            for (int across = 0; across < component->horizontal; across++) {
                int block_row = row * component->vertical + down;
                int block_column = column * component->horizontal + across;
                int is_inside = block_row < component->rows && block_column < component->columns;
                size_t number = (size_t)block_row * (size_t)component->columns + (size_t)block_column;
                int16_t outside[64] = {0}, *block = is_inside ? component->blocks + 64 * number : outside;
                if (read_block(scan, place, from, block, scan->is_compared && is_inside)) return NOT_OURS;
            }
    }
    return OK;
}

/* The units from one marker to the next, and nothing else but padding. */
static int read_stretch(Scan *scan, int num_columns, int start, int end, const uint8_t *data, ptrdiff_t length) {
    Bits from = {0, 0, data};
    ptrdiff_t left = 8 * length;
    memset(scan->predictions, 0, sizeof scan->predictions);
    scan->ending = 0;
    for (int unit = start, row = start / num_columns, column = start % num_columns; unit < end; unit++) {
        int16_t *alone = scan->components[0]->blocks + 64 * (size_t)unit;
        int failed = scan->num_components > 1 ? read_unit(scan, row, column, &from)
                                              : read_block(scan, 0, &from, alone, scan->is_compared);
        left = 8 * (length - (from.next - data)) + from.count;
        if (failed || left < 0) return NOT_OURS;
        if (++column == num_columns) row++, column = 0;
    }
    return left >= 8 ? NOT_OURS : OK;
}

/* A scan's coded data, from `*at` up to the marker behind it. */
static const char *read_scan(const Coefficients *picture, Scan *scan, const uint8_t **at, const uint8_t *end,
                             uint8_t *unstuffed) {
    /* A component alone is coded block by block. */
    const Component *alone = scan->num_components == 1 ? scan->components[0] : NULL;
    int num_columns = alone ? alone->columns : picture->unit_columns;
    int num_units = num_columns * (alone ? alone->rows : picture->unit_rows);
    int interval = picture->tables.interval ? picture->tables.interval : num_units;
    for (int start = 0, stretch = 0; start < num_units; start += interval, stretch++) {
        int is_last = num_units - start <= interval, until = is_last ? num_units : start + interval;
        ptrdiff_t length = next_stretch(at, end, unstuffed);
        if (length < 0 || (!is_last && (*at)[1] != RESTART_0 + stretch % 8)) return DAMAGED;
        if (read_stretch(scan, num_columns, start, until, unstuffed, length)) return DAMAGED;
        if (is_last) break;
        *at += 2;
    }
    return NULL;
}

static const char *finished(Coefficients *picture) {
    if (!picture->has_frame) return CUT_SHORT;
    for (int place = 0; place < picture->num_components; place++)
        for (int of_block = 0; of_block < 64; of_block++)
            if (picture->components[place].missing[of_block]) return INCOMPLETE;
    return NULL;
}

static const char *read_segment(int marker, const uint8_t *data, int length, size_t num_bytes,
                                const Coefficients *expected, Coefficients *picture) {
    if (is_application(marker) || marker == COMMENT) {
        memcpy(picture->kept + picture->kept_bytes, data - 4, (size_t)length + 4);
        picture->kept_bytes += (size_t)length + 4;
        return parse_application(marker, data, length, &picture->colours) ? BAD_HEADER : NULL;
    }
    if (marker == BASELINE || marker == EXTENDED || marker == PROGRESSIVE)
        return read_frame(data, length, marker, num_bytes, expected, picture);
    if (marker > EXTENDED && marker < RESTART_0 && marker != CODES) return OTHER_KIND;
    return parse_tables(marker, data, length, &picture->tables) ? BAD_HEADER : NULL;
}

/* What libjpeg takes the colours for, it decides when the first scan begins. */
static const char *decide_colours(Coefficients *picture) {
    const Component *of = picture->components;
    const uint8_t ids[3 * MAX_COMPONENTS] = {of[0].id, 0, 0, of[1].id, 0, 0, of[2].id};
    picture->kind = picture->num_components == 3 ? kind_of(&picture->colours, ids) : YCBCR;
    return picture->kind == OTHER_COLOURS ? BAD_HEADER : NULL;
}

const char *read_coefficients(const uint8_t *bytes, size_t num_bytes, const Coefficients *expected,
                              Coefficients *picture) {
    memset(picture, 0, sizeof *picture);
    picture->colours.adobe = -1;
    if (num_bytes < 4 || bytes[0] != 0xFF || bytes[1] != START) return BAD_HEADER;
    const uint8_t *at = bytes + 2, *end = bytes + num_bytes;
    const char *reason = NULL;
    int num_scans = 0;
    Codes(*codes)[MAX_COMPONENTS] = malloc(2 * sizeof *codes);
    picture->kept = malloc(2 * num_bytes + PADDING);
    if (!codes || !picture->kept) reason = NO_MORE_MEMORY;
    while (!reason) {
        while (end - at > 2 && at[0] == 0xFF && at[1] == 0xFF) at++; /* filling */
        if (end - at < 2 || at[0] != 0xFF) {
            reason = DAMAGED;
        } else if (at[1] == END) {
            reason = finished(picture);
            break;
        } else if (end - at < 4 || big_endian(at + 2) < 2 || big_endian(at + 2) > end - at - 2) {
            reason = CUT_SHORT;
        } else {
            int marker = at[1], length = big_endian(at + 2) - 2;
            const uint8_t *data = at + 4;
            at = data + length;
            if (marker != SCAN) {
                reason = read_segment(marker, data, length, num_bytes, expected, picture);
                continue;
            }
            Scan scan;
            if (!num_scans++) reason = decide_colours(picture);
            if (!reason) reason = read_scan_header(data, length, picture, &scan, codes);
            if (!reason) reason = read_scan(picture, &scan, &at, end, picture->kept + num_bytes);
        }
    }
    free(codes);
    return reason;
}

void release(Coefficients *picture) {
    free(picture->kept);
    free(picture->blocks);
}
