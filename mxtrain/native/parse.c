/* What stands before the scan: size, sampling, tables, restart interval. */

#include <string.h>

#include "crop.h"

/* What the markers before a scan say of it. */
typedef struct {
    Tables tables;
    Colours colours;
    const uint8_t *frame; /* the data of the frame marker */
} Header;

static int parse_quantizers(const uint8_t *data, int length, Tables *tables) {
    while (length >= 65) {
        int is_wide = data[0] >> 4, table = data[0] & 15, num_bytes = 1 + 64 * (1 + is_wide);
        if (is_wide > 1 || table > 3 || length < num_bytes) return NOT_OURS;
        for (int place = 0; place < 64; place++)
            tables->quantizers[table][place] = (uint16_t)(is_wide ? big_endian(data + 1 + 2 * place) : data[1 + place]);
        tables->has_quantizers[table] = 1;
        data += num_bytes, length -= num_bytes;
    }
    return length ? NOT_OURS : OK;
}

static int parse_codes(const uint8_t *data, int length, Tables *tables) {
    while (length >= 17) {
        int is_ac = data[0] >> 4, table = data[0] & 15, count = 0;
        for (int place = 1; place <= 16; place++) count += data[place];
        if (is_ac > 1 || table > 3 || count > 256 || length < 17 + count) return NOT_OURS;
        tables->codes[is_ac][table] = data + 1;
        data += 17 + count, length -= 17 + count;
    }
    return length ? NOT_OURS : OK;
}

int parse_tables(int marker, const uint8_t *data, int length, Tables *tables) {
    if (marker == QUANTIZERS) return parse_quantizers(data, length, tables);
    if (marker == CODES) return parse_codes(data, length, tables);
    if (marker != INTERVAL || length != 2) return NOT_OURS;
    tables->interval = big_endian(data);
    return OK;
}

int parse_application(int marker, const uint8_t *data, int length, Colours *colours) {
    if (marker == APPLICATION_0 && length >= 14 && !memcmp(data, "JFIF", 5)) {
        colours->jfif = data;
        return data[5] == 1 ? OK : NOT_OURS; /* of any other version, libjpeg warns */
    }
    if (marker == APPLICATION_0 + 14 && length >= 12 && !memcmp(data, "Adobe", 5)) colours->adobe = data[11];
    return OK;
}

int kind_of(const Colours *colours, const uint8_t *components) {
    if (colours->jfif) return YCBCR;
    if (colours->adobe >= 0) return colours->adobe == 0 ? RGB : colours->adobe == 1 ? YCBCR : OTHER_COLOURS;
    return components[0] == 'R' && components[3] == 'G' && components[6] == 'B' ? RGB : YCBCR;
}

/* The frame's data: precision, height, width, number of components, and (id, sampling, table) of each. */
static int parse_frame(const uint8_t *data, int length, Jpeg *jpeg, Header *header) {
    if (header->frame || length != 6 + 3 * NUM_COMPONENTS || data[0] != 8 || data[5] != NUM_COMPONENTS) return NOT_OURS;
    jpeg->height = big_endian(data + 1), jpeg->width = big_endian(data + 3);
    jpeg->horizontal = data[7] >> 4, jpeg->vertical = data[7] & 15;
    int is_sampled_as_usual =
        jpeg->horizontal == 2 ? jpeg->vertical <= 2 : jpeg->horizontal == 1 && jpeg->vertical == 1;
    if (!is_sampled_as_usual || !jpeg->vertical || data[10] != 0x11 || data[13] != 0x11) return NOT_OURS;
    if (jpeg->height > MAX_SIDE || jpeg->width > MAX_SIDE) return NOT_OURS;
    if (!jpeg->height || jpeg->width <= 4) return NOT_OURS; /* libjpeg does not smooth chroma of 2 samples a row */
    header->frame = data;
    return OK;
}

static int parse_scan(const uint8_t *data, int length, Jpeg *jpeg, const Header *header) {
    const Tables *tables = &header->tables;
    if (!header->frame || length != 4 + 2 * NUM_COMPONENTS || data[0] != NUM_COMPONENTS) return NOT_OURS;
    if (kind_of(&header->colours, header->frame + 6) != YCBCR) return NOT_OURS;
    for (int component = 0; component < NUM_COMPONENTS; component++) {
        const uint8_t *of_frame = header->frame + 6 + 3 * component, *of_scan = data + 1 + 2 * component;
        uint8_t dc = of_scan[1] >> 4, ac = of_scan[1] & 15;
        if (of_scan[0] != of_frame[0] || of_frame[2] > 3 || !tables->has_quantizers[of_frame[2]]) return NOT_OURS;
        if (dc > 1 || ac > 1 || !tables->codes[0][dc] || !tables->codes[1][ac]) return NOT_OURS;
        for (int place = 0; place < 64; place++) {
            uint16_t quantizer = tables->quantizers[of_frame[2]][place];
            if (quantizer > 255) return NOT_OURS;
            jpeg->quantizers[component][NATURAL[place]] = (int16_t)quantizer;
        }
        jpeg->table[0][component] = dc, jpeg->table[1][component] = ac;
        jpeg->codes[0][dc] = tables->codes[0][dc], jpeg->codes[1][ac] = tables->codes[1][ac];
    }
    jpeg->interval = tables->interval;
    const uint8_t *progression = data + 1 + 2 * NUM_COMPONENTS;
    return progression[0] == 0 && progression[1] == 63 && progression[2] == 0 ? OK : NOT_OURS;
}

int parse_jpeg(const uint8_t *bytes, size_t num_bytes, Jpeg *jpeg) {
    Header header = {.colours.adobe = -1};
    size_t at = 2;
    memset(jpeg, 0, sizeof *jpeg);
    if (num_bytes < 4 || bytes[0] != 0xFF || bytes[1] != START) return NOT_OURS;
    if (bytes[num_bytes - 2] != 0xFF || bytes[num_bytes - 1] != END) return NOT_OURS; /* cut short */
    while (at + 4 <= num_bytes && bytes[at] == 0xFF) {
        int marker = bytes[at + 1], length = big_endian(bytes + at + 2) - 2, failed = OK;
        const uint8_t *data = bytes + at + 4;
        if (length < 0 || at + 4 + (size_t)length > num_bytes) return NOT_OURS;
        at += 4 + (size_t)length;
        if (marker == SCAN) {
            jpeg->scan = bytes + at, jpeg->scan_bytes = num_bytes - at;
            return parse_scan(data, length, jpeg, &header);
        }
        if (marker == BASELINE) failed = parse_frame(data, length, jpeg, &header);
        else if (is_application(marker)) failed = parse_application(marker, data, length, &header.colours);
        else if (marker != COMMENT) failed = parse_tables(marker, data, length, &header.tables);
        if (failed) return NOT_OURS;
    }
    return NOT_OURS;
}
