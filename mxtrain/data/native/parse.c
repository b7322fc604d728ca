/* What stands before the scan: size, sampling, tables, restart interval. */

#include <string.h>

#include "crop.h"

enum { START = 0xD8, END = 0xD9, BASELINE = 0xC0, CODES = 0xC4, SCAN = 0xDA, QUANTIZERS = 0xDB, INTERVAL = 0xDD };
enum { MAX_SIDE = 65500 /* of libjpeg */ };

typedef struct {
    int16_t quantizers[4][64];
    int has_quantizers[4];
    const uint8_t *frame; /* the data of the frame marker */
    int is_jfif;
} Tables;

INLINE int big_endian(const uint8_t *at) { return at[0] << 8 | at[1]; }

static int parse_quantizers(const uint8_t *data, int length, Tables *tables) {
    for (; length >= 65; data += 65, length -= 65) {
        if (data[0] > 3) return NOT_OURS; /* 16 bits, or no such table */
        for (int place = 0; place < 64; place++) tables->quantizers[data[0]][NATURAL[place]] = data[1 + place];
        tables->has_quantizers[data[0]] = 1;
    }
    return length ? NOT_OURS : OK;
}

static int parse_codes(const uint8_t *data, int length, Jpeg *jpeg) {
    while (length >= 17) {
        int is_ac = data[0] >> 4, table = data[0] & 15, count = 0;
        for (int place = 1; place <= 16; place++) count += data[place];
        if (is_ac > 1 || table > 1 || count > 256 || length < 17 + count) return NOT_OURS;
        jpeg->codes[is_ac][table] = data + 1;
        data += 17 + count, length -= 17 + count;
    }
    return length ? NOT_OURS : OK;
}

/* The frame's data: precision, height, width, number of components, and (id, sampling, table) of each. */
static int parse_frame(const uint8_t *data, int length, Jpeg *jpeg, Tables *tables) {
    if (tables->frame || length != 6 + 3 * NUM_COMPONENTS || data[0] != 8 || data[5] != NUM_COMPONENTS) return NOT_OURS;
    jpeg->height = big_endian(data + 1), jpeg->width = big_endian(data + 3);
    jpeg->horizontal = data[7] >> 4, jpeg->vertical = data[7] & 15;
    int is_sampled_as_usual =
        jpeg->horizontal == 2 ? jpeg->vertical <= 2 : jpeg->horizontal == 1 && jpeg->vertical == 1;
    if (!is_sampled_as_usual || !jpeg->vertical || data[10] != 0x11 || data[13] != 0x11) return NOT_OURS;
    if (jpeg->height > MAX_SIDE || jpeg->width > MAX_SIDE) return NOT_OURS;
    if (!jpeg->height || jpeg->width <= 4) return NOT_OURS; /* libjpeg does not smooth chroma of 2 samples a row */
    tables->frame = data;
    return OK;
}

static int parse_scan(const uint8_t *data, int length, Jpeg *jpeg, const Tables *tables) {
    /* Without a JFIF marker libjpeg guesses the colour space. */
    if (!tables->frame || !tables->is_jfif || length != 4 + 2 * NUM_COMPONENTS || data[0] != NUM_COMPONENTS)
        return NOT_OURS;
    for (int component = 0; component < NUM_COMPONENTS; component++) {
        const uint8_t *of_frame = tables->frame + 6 + 3 * component, *of_scan = data + 1 + 2 * component;
        uint8_t dc = of_scan[1] >> 4, ac = of_scan[1] & 15;
        if (of_scan[0] != of_frame[0] || of_frame[2] > 3 || !tables->has_quantizers[of_frame[2]]) return NOT_OURS;
        if (dc > 1 || ac > 1 || !jpeg->codes[0][dc] || !jpeg->codes[1][ac]) return NOT_OURS;
        memcpy(jpeg->quantizers[component], tables->quantizers[of_frame[2]], sizeof jpeg->quantizers[component]);
        jpeg->table[0][component] = dc, jpeg->table[1][component] = ac;
    }
    const uint8_t *progression = data + 1 + 2 * NUM_COMPONENTS;
    return progression[0] == 0 && progression[1] == 63 && progression[2] == 0 ? OK : NOT_OURS;
}

int parse_jpeg(const uint8_t *bytes, size_t num_bytes, Jpeg *jpeg) {
    Tables tables = {.frame = NULL};
    size_t at = 2;
    memset(jpeg, 0, sizeof *jpeg);
    if (num_bytes < 4 || bytes[0] != 0xFF || bytes[1] != START) return NOT_OURS;
    if (bytes[num_bytes - 2] != 0xFF || bytes[num_bytes - 1] != END) return NOT_OURS; /* cut short */
    while (at + 4 <= num_bytes && bytes[at] == 0xFF) {
        int marker = bytes[at + 1], length = big_endian(bytes + at + 2) - 2, failed = OK;
        const uint8_t *data = bytes + at + 4;
        if (length < 0 || at + 4 + (size_t)length > num_bytes) return NOT_OURS;
        at += 4 + (size_t)length;
        if (marker == QUANTIZERS) failed = parse_quantizers(data, length, &tables);
        else if (marker == CODES) failed = parse_codes(data, length, jpeg);
        else if (marker == BASELINE) failed = parse_frame(data, length, jpeg, &tables);
        else if (marker == INTERVAL) failed = length != 2, jpeg->interval = length == 2 ? big_endian(data) : 0;
        else if (marker == 0xE0 && length >= 14 && !memcmp(data, "JFIF", 5))
            tables.is_jfif = 1, failed = data[5] != 1; /* of any other version, libjpeg warns */
        else if (marker == SCAN) {
            jpeg->scan = bytes + at, jpeg->scan_bytes = num_bytes - at;
            return parse_scan(data, length, jpeg, &tables);
        } else if (marker < 0xE0 || (marker > 0xEF && marker != 0xFE)) failed = NOT_OURS; /* not APPn or a comment */
        if (failed) return NOT_OURS;
    }
    return NOT_OURS;
}
