/* Coefficients to a baseline file of one scan with restart markers, laid out as jpegtran's, to the byte.

   All symbols are listed and counted, codes are made for these counts, and then the list is written. */

#include <stdlib.h>

#include "tokens.h"

static const char TOO_LARGE[] = "a coefficient larger than baseline has",
                  SHARED_QUANTIZERS[] = "quantizers that change between scans",
                  DIFFERENT[] = "other coefficients when read back";

/* Of numbers in 8-bit files: all sizes are below these. -32768, of 16 bits, shows in the comparison. */
enum { DC_SIZES = 12, AC_SIZES = 11 };
/* Without metadata: 3 tables of quantizers, 4 of codes, and less than 100 bytes. */
enum { LONGEST_HEADER = 2048 };

static void put_segment(uint8_t **to, int marker, const uint8_t *data, size_t length) {
    uint8_t *at = *to;
    at[0] = 0xFF, at[1] = (uint8_t)marker;
    at[2] = (uint8_t)((length + 2) >> 8), at[3] = (uint8_t)(length + 2);
    memcpy(at + 4, data, length);
    *to = at + 4 + length;
}

static int is_named(const uint8_t *segment, int marker, const char *name, int length) {
    return segment[1] == marker && big_endian(segment + 2) >= 2 + length && !memcmp(segment + 4, name, (size_t)length);
}

/* What tells colours is written anew; all else is copied. Where Exif comes first, it stays first, and JFIF as it is. */
static void put_metadata(uint8_t **to, const Coefficients *picture) {
    const uint8_t *end = picture->kept + picture->kept_bytes;
    int has_exif_first = picture->kept_bytes && is_named(picture->kept, APPLICATION_0 + 1, "Exif\0", 6);
    int has_jfif = picture->kind == YCBCR && !has_exif_first;
    if (has_jfif) {
        uint8_t jfif[14] = {'J', 'F', 'I', 'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0};
        if (picture->colours.jfif) memcpy(jfif + 5, picture->colours.jfif + 5, 7);
        put_segment(to, APPLICATION_0, jfif, sizeof jfif);
    }
    if (picture->kind == RGB) {
        const uint8_t adobe[12] = {'A', 'd', 'o', 'b', 'e', 0, 100};
        put_segment(to, APPLICATION_0 + 14, adobe, sizeof adobe);
    }
    for (const uint8_t *at = picture->kept; at < end; at += 2 + big_endian(at + 2)) {
        if (has_jfif && is_named(at, APPLICATION_0, "JFIF", 5)) continue;
        if (picture->kind == RGB && is_named(at, APPLICATION_0 + 14, "Adobe", 5)) continue;
        put_segment(to, at[1], at + 4, (size_t)big_endian(at + 2) - 2);
    }
}

/* The quantizers, each table once; whether one needs 16 bits, which baseline does not have. */
static int put_quantizers(uint8_t **to, const Coefficients *picture) {
    int are_wide = 0, is_done[4] = {0};
    for (int place = 0; place < picture->num_components; place++) {
        const Component *component = &picture->components[place];
        if (is_done[component->table]++) continue;
        int is_wide = 0;
        uint8_t data[129], *next = data + 1;
        for (int of_block = 0; of_block < 64; of_block++) is_wide |= component->quantizers[of_block] > 255;
        data[0] = (uint8_t)(is_wide << 4 | component->table);
        for (int of_block = 0; of_block < 64; of_block++) {
            if (is_wide) *next++ = (uint8_t)(component->quantizers[of_block] >> 8);
            *next++ = (uint8_t)component->quantizers[of_block];
        }
        put_segment(to, QUANTIZERS, data, (size_t)(next - data));
        are_wide |= is_wide;
    }
    return are_wide;
}

static void put_header(uint8_t **to, const Coefficients *picture, int interval, const OptimalCodes codes[4]) {
    int num = picture->num_components, num_tables = num > 1 && picture->kind == YCBCR ? 2 : 1;
    uint8_t frame[6 + 3 * MAX_COMPONENTS] = {8}, scan[4 + 2 * MAX_COMPONENTS] = {(uint8_t)num};
    frame[1] = (uint8_t)(picture->height >> 8), frame[2] = (uint8_t)picture->height;
    frame[3] = (uint8_t)(picture->width >> 8), frame[4] = (uint8_t)picture->width, frame[5] = (uint8_t)num;
    for (int place = 0; place < num; place++) {
        const Component *component = &picture->components[place];
        frame[6 + 3 * place] = scan[1 + 2 * place] = component->id;
        frame[7 + 3 * place] = (uint8_t)(component->horizontal << 4 | component->vertical);
        frame[8 + 3 * place] = component->table;
        scan[2 + 2 * place] = place && num_tables > 1 ? 0x11 : 0;
    }
    scan[2 + 2 * num] = 63;
    *(*to)++ = 0xFF, *(*to)++ = START;
    put_metadata(to, picture);
    int are_wide = put_quantizers(to, picture);
    put_segment(to, are_wide ? EXTENDED : BASELINE, frame, 6 + 3 * (size_t)num);
    for (int table = 0; table < 2 * num_tables; table++) {
        uint8_t data[1 + 16 + 256] = {(uint8_t)(table % 2 << 4 | table / 2)};
        memcpy(data + 1, codes[table].counts, 16);
        memcpy(data + 17, codes[table].symbols, (size_t)codes[table].num_symbols);
        put_segment(to, CODES, data, 17 + (size_t)codes[table].num_symbols);
    }
    const uint8_t units[2] = {(uint8_t)(interval >> 8), (uint8_t)interval};
    put_segment(to, INTERVAL, units, sizeof units);
    put_segment(to, SCAN, scan, 4 + 2 * (size_t)num);
}

/* As many tokens as the picture may need at most. */
static size_t most_tokens(const Coefficients *picture) {
    size_t unit_blocks = 0;
    for (int place = 0; place < picture->num_components; place++)
        unit_blocks += (size_t)picture->components[place].horizontal * (size_t)picture->components[place].vertical;
    return 64 * unit_blocks * (size_t)picture->unit_rows * (size_t)picture->unit_columns;
}

/* At most as many bytes as the coded data will have, without zeros behind others and without markers. */
static size_t coded_bytes(const Tokens *tokens, const OptimalCodes codes[4], size_t num_stretches) {
    size_t num_bits = 0;
    for (int table = 0; table < 4; table++)
        for (int symbol = 0; symbol < 256; symbol++)
            num_bits += (size_t)(codes[table].lengths[symbol] + (symbol & 15)) * tokens->frequencies[table][symbol];
    return num_bits / 8 + num_stretches;
}

static const char *write_tokens(const Coefficients *picture, int interval, Tokens *tokens, uint8_t **written,
                                size_t *num_bytes) {
    OptimalCodes codes[4];
    add_units(tokens, picture, interval);
    for (int table = 0; table < 4; table++)
        for (int symbol = 0; symbol < 256; symbol++)
            if (tokens->frequencies[table][symbol] && (table % 2 ? symbol % 16 >= AC_SIZES : symbol >= DC_SIZES))
                return TOO_LARGE;
    for (int table = 0; table < 4; table++) make_codes(tokens->frequencies[table], &codes[table]);
    size_t num_units = (size_t)picture->unit_rows * (size_t)picture->unit_columns;
    size_t num_stretches = num_units / (size_t)interval + 1, num_coded = coded_bytes(tokens, codes, num_stretches);
    size_t room = LONGEST_HEADER + picture->kept_bytes + 2 * num_coded + 2 * num_stretches;
    *written = malloc(room + num_coded + 8);
    if (!*written) return NO_MORE_MEMORY;
    uint8_t *at = *written;
    put_header(&at, picture, interval, codes);
    at = put_tokens(tokens, codes, *written + room, at);
    *at++ = 0xFF, *at++ = END;
    *num_bytes = (size_t)(at - *written);
    return NULL;
}

const char *write_coefficients(const Coefficients *picture, int interval, uint8_t **written, size_t *num_bytes) {
    for (int place = 0; place < picture->num_components; place++)
        for (int before = 0; before < place; before++) {
            const Component *one = &picture->components[before], *other = &picture->components[place];
            if (one->table == other->table && memcmp(one->quantizers, other->quantizers, sizeof one->quantizers))
                return SHARED_QUANTIZERS;
        }
    Tokens tokens = {.tokens = malloc(most_tokens(picture) * sizeof(Token))};
    tokens.next = tokens.tokens;
    const char *reason = tokens.tokens ? write_tokens(picture, interval, &tokens, written, num_bytes) : NO_MORE_MEMORY;
    free(tokens.tokens);
    return reason;
}

static int has_same_frame(const Coefficients *one, const Coefficients *other) {
    if (one->height != other->height || one->width != other->width || one->num_components != other->num_components ||
        one->kind != other->kind)
        return 0;
    for (int place = 0; place < one->num_components; place++) {
        const Component *first = &one->components[place], *second = &other->components[place];
        if (first->id != second->id || first->horizontal != second->horizontal || first->vertical != second->vertical ||
            memcmp(first->quantizers, second->quantizers, sizeof first->quantizers))
            return 0;
    }
    return 1;
}

const char *rewrite(const uint8_t *bytes, size_t num_bytes, int interval, uint8_t **written, size_t *num_written) {
    Coefficients picture, again;
    *written = NULL;
    const char *reason = read_coefficients(bytes, num_bytes, NULL, &picture);
    if (!reason) reason = write_coefficients(&picture, interval, written, num_written);
    if (!reason) {
        reason = read_coefficients(*written, *num_written, &picture, &again);
        if (reason != NO_MORE_MEMORY && (reason || !has_same_frame(&picture, &again))) reason = DIFFERENT;
        release(&again);
    }
    release(&picture);
    if (reason) {
        free(*written);
        *written = NULL;
    }
    return reason;
}
