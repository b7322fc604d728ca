/* Coefficients to a baseline file of one scan with restart markers, laid out as jpegtran's, to the byte.

   All symbols are listed and counted, codes are made for these counts, and then the list is written. */

#include <immintrin.h>
#include <stdlib.h>

#include "coefficients.h"

static const char TOO_LARGE[] = "a coefficient larger than baseline has",
                  SHARED_QUANTIZERS[] = "quantizers that change between scans",
                  DIFFERENT[] = "other coefficients when read back";

/* Of numbers in 8-bit files: all sizes are below these. -32768, of 16 bits, shows in the comparison. */
enum { DC_SIZES = 12, AC_SIZES = 11 };
/* Without metadata: 3 tables of quantizers, 4 of codes, and less than 100 bytes. */
enum { LONGEST_HEADER = 2048 };

/* A symbol and the bits behind it, to be written once the codes are known: the symbol (8 bits), its table (2 bits),
   whether a restart marker comes before it (1 bit), and in the upper half the bits, as many as the symbol's lower half
   says. */
typedef uint32_t Token;
enum { SYMBOL = 255, TABLE_AND_SYMBOL = 1023, IS_RESTART = 1024, IS_AC = 256, IS_CHROMA = 512 };

typedef struct {
    Token *tokens, *next;
    uint32_t frequencies[4][256]; /* [table] */
} Tokens;

/* What is still to be written, and where. Bits are in the lower part of `bits`. */
typedef struct {
    uint64_t bits;
    int free;
    uint8_t *at;
} Output;

INLINE void put_word(Output *to, uint64_t word) {
    uint64_t is_escape = word & ~(word + 0x0101010101010101) & 0x8080808080808080; /* in some byte 0xff */
    uint64_t swapped = __builtin_bswap64(word);
    if (!is_escape) {
        memcpy(to->at, &swapped, 8);
        to->at += 8;
        return;
    }
    for (int shift = 56; shift >= 0; shift -= 8) {
        uint8_t byte = (uint8_t)(word >> shift);
        *to->at++ = byte;
        if (byte == 0xFF) *to->at++ = 0;
    }
}

/* The lower `length` of these bits, the others being 0. */
INLINE void put_bits(Output *to, uint64_t bits, int length) {
    if (length <= to->free) {
        to->bits = to->bits << length | bits;
        to->free -= length;
        return;
    }
    put_word(to, to->bits << to->free | bits >> (length - to->free));
    to->bits = bits;
    to->free += 64 - length;
}

/* Fills up the last byte with ones. */
static void put_last_bits(Output *to) {
    int padding = to->free % 8;
    put_bits(to, (1u << padding) - 1, padding);
    for (int shift = 56 - to->free; shift >= 0; shift -= 8) {
        uint8_t byte = (uint8_t)(to->bits >> shift);
        *to->at++ = byte;
        if (byte == 0xFF) *to->at++ = 0;
    }
    to->bits = 0, to->free = 64;
}

INLINE void add_number(Tokens *to, uint32_t table, int zeros, int number) {
    int sign = number >> 31, magnitude = (number ^ sign) - sign, size = 31 - __builtin_clz(2 * (unsigned)magnitude + 1);
    uint32_t symbol = (uint32_t)(zeros << 4 | size) & SYMBOL;
    to->frequencies[table >> 8][symbol]++;
    *to->next++ = (_bzhi_u32((uint32_t)(number + sign), (unsigned)size) & 0xFFFF) << 16 | table | symbol;
}

/* A bit for each place of the zigzag whose coefficient is not 0. */
INLINE uint64_t places_of_numbers(const int16_t *block) {
    uint64_t zeros = 0;
    for (int half = 0; half < 2; half++) {
        const __m256i *from = (const __m256i *)(const void *)(block + 32 * half);
        __m256i bytes = _mm256_packs_epi16(_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1));
        __m256i is_zero = _mm256_cmpeq_epi8(_mm256_permute4x64_epi64(bytes, 0xD8), _mm256_setzero_si256());
        zeros |= (uint64_t)(uint32_t)_mm256_movemask_epi8(is_zero) << (32 * half);
    }
    return ~zeros;
}

INLINE void add_block(Tokens *to, uint32_t table, const int16_t *block, int prediction) {
    int before = 0;
    add_number(to, table, 0, block[0] - prediction);
    for (uint64_t left = places_of_numbers(block) & ~(uint64_t)1; left; left &= left - 1) {
        int place = __builtin_ctzll(left), zeros = place - before - 1;
        for (; zeros > 15; zeros -= 16) add_number(to, table | IS_AC, 15, 0);
        add_number(to, table | IS_AC, zeros, block[place]);
        before = place;
    }
    if (before < 63) add_number(to, table | IS_AC, 0, 0);
}

/* A unit. A block outside the picture, which only fills it up, is as dark as the one before. */
INLINE void add_unit(Tokens *to, const Coefficients *picture, int row, int column, int predictions[MAX_COMPONENTS]) {
    for (int place = 0; place < picture->num_components; place++) {
        const Component *component = &picture->components[place];
        uint32_t table = place > 0 && picture->kind == YCBCR ? IS_CHROMA : 0;
        for (int down = 0; down < component->vertical; down++)
            for (int across = 0; across < component->horizontal; across++) {
                int block_row = row * component->vertical + down;
                int block_column = column * component->horizontal + across;
                size_t number = (size_t)block_row * (size_t)component->columns + (size_t)block_column;
                int16_t outside[64] = {(int16_t)predictions[place]};
                int is_inside = block_row < component->rows && block_column < component->columns;
                const int16_t *block = is_inside ? component->blocks + 64 * number : outside;
                add_block(to, table, block, predictions[place]);
                predictions[place] = block[0];
            }
    }
}

static void add_units(Tokens *to, const Coefficients *picture, int interval) {
    int predictions[MAX_COMPONENTS] = {0}, left = interval;
    for (int row = 0; row < picture->unit_rows; row++)
        for (int column = 0; column < picture->unit_columns; column++, left--) {
            Token *first = to->next;
            if (!left) memset(predictions, 0, sizeof predictions);
            add_unit(to, picture, row, column, predictions);
            if (!left) *first |= IS_RESTART, left = interval;
        }
}

static void put_tokens(Output *to, const Tokens *tokens, const OptimalCodes codes[4]) {
    uint32_t written[4 * 256]; /* of each symbol, its code with room for the bits behind it, and the length of both */
    for (int table = 0; table < 4; table++)
        for (int symbol = 0; symbol < 256; symbol++)
            written[table << 8 | symbol] = (uint32_t)codes[table].codes[symbol] << (symbol & 15) << 5 |
                                           (uint32_t)(codes[table].lengths[symbol] + (symbol & 15));
    int restart = 0;
    for (const Token *token = tokens->tokens; token < tokens->next; token++) {
        if (*token & IS_RESTART) {
            put_last_bits(to);
            *to->at++ = 0xFF, *to->at++ = (uint8_t)(RESTART_0 + restart++ % 8);
        }
        uint32_t found = written[*token & TABLE_AND_SYMBOL];
        put_bits(to, found >> 5 | *token >> 16, found & 31);
    }
    put_last_bits(to);
}

static void put_segment(Output *to, int marker, const uint8_t *data, size_t length) {
    to->at[0] = 0xFF, to->at[1] = (uint8_t)marker;
    to->at[2] = (uint8_t)((length + 2) >> 8), to->at[3] = (uint8_t)(length + 2);
    memcpy(to->at + 4, data, length);
    to->at += 4 + length;
}

static int is_named(const uint8_t *segment, int marker, const char *name, int length) {
    return segment[1] == marker && big_endian(segment + 2) >= 2 + length && !memcmp(segment + 4, name, (size_t)length);
}

/* What tells colours is written anew; all else is copied. Where Exif comes first, it stays first, and JFIF as it is. */
static void put_metadata(Output *to, const Coefficients *picture) {
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
static int put_quantizers(Output *to, const Coefficients *picture) {
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

static void put_header(Output *to, const Coefficients *picture, int interval, const OptimalCodes codes[4]) {
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
    *to->at++ = 0xFF, *to->at++ = START;
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

/* At most as many bytes as the file will have: each coded one may be followed by a zero. */
static size_t room(const Tokens *tokens, const OptimalCodes codes[4], const Coefficients *picture, int interval) {
    size_t num_bits = 0, num_units = (size_t)picture->unit_rows * (size_t)picture->unit_columns;
    for (int table = 0; table < 4; table++)
        for (int symbol = 0; symbol < 256; symbol++)
            num_bits += (size_t)(codes[table].lengths[symbol] + (symbol & 15)) * tokens->frequencies[table][symbol];
    return LONGEST_HEADER + picture->kept_bytes + 2 * (num_bits / 8) + 4 * (num_units / (size_t)interval + 1);
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
    *written = malloc(room(tokens, codes, picture, interval));
    if (!*written) return NO_MORE_MEMORY;
    Output to = {.free = 64, .at = *written};
    put_header(&to, picture, interval, codes);
    put_tokens(&to, tokens, codes);
    *to.at++ = 0xFF, *to.at++ = END;
    *num_bytes = (size_t)(to.at - *written);
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
