/* What reading any Huffman-coded JPEG takes: markers, tables, codes, and bits. */

#ifndef MXTRAIN_JPEG_H
#define MXTRAIN_JPEG_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if !defined(__x86_64__) || !defined(__GNUC__)
#error "written for x86-64, with GCC or clang; elsewhere libjpeg-turbo decodes"
#endif
#define INLINE static inline __attribute__((always_inline))

enum { OK = 0, NOT_OURS = 1, NO_MEMORY = 2 };

/* Second bytes of markers; the first is 0xff. */
enum {
    BASELINE = 0xC0,
    EXTENDED = 0xC1,
    PROGRESSIVE = 0xC2,
    CODES = 0xC4,
    RESTART_0 = 0xD0,
    START = 0xD8,
    END = 0xD9,
    SCAN = 0xDA,
    QUANTIZERS = 0xDB,
    INTERVAL = 0xDD,
    APPLICATION_0 = 0xE0,
    COMMENT = 0xFE,
};

enum { MAX_SIDE = 65500 /* of libjpeg */ };

/* What is read past the end of a stretch before that is noticed: a unit of 10 blocks of 64 numbers of 31 bits, and a
   word. It is all zeros. */
#define PADDING 2560

/* The tables that the last markers defined. */
typedef struct {
    uint16_t quantizers[4][64]; /* in zigzag order */
    int has_quantizers[4];
    const uint8_t *codes[2][4]; /* [is_ac][table]: 16 counts, one for each length, and the symbols; NULL: not there */
    int interval;               /* units from one restart marker to the next; 0: none */
} Tables;

INLINE int big_endian(const uint8_t *at) { return at[0] << 8 | at[1]; }

/* Of a marker for tables, the `length` bytes of its data. */
int parse_tables(int marker, const uint8_t *data, int length, Tables *tables);

/* What tells colours: the data of the JFIF marker, or NULL, and Adobe's number for the kind, or -1. */
typedef struct {
    const uint8_t *jfif;
    int adobe;
} Colours;

INLINE int is_application(int marker) { return marker >= APPLICATION_0 && marker < APPLICATION_0 + 16; }
int parse_application(int marker, const uint8_t *data, int length, Colours *colours);

/* What libjpeg takes three components for, whose first of 3 bytes each in the frame is the id. */
enum { YCBCR, RGB, OTHER_COLOURS };
int kind_of(const Colours *colours, const uint8_t *components);

/* Of each of the zigzag's 64 places, its place in natural order, row by row; of any behind them 64. */
extern const uint8_t NATURAL[];

/* `LOOKED_UP` bits find a code, and mostly the number behind it, in one step. */
#define LOOKED_UP 10

/* Two numbers at once: how many bits to step on (0: not even one code with its number fits), the places of both from
   the next one on, and how many places they take. Where the second does not fit, it is a zero behind the first. */
typedef struct {
    uint8_t length, first, second, behind;
    int16_t numbers[2];
} Pair;

typedef struct {
    uint32_t lookup[1 << LOOKED_UP]; /* see huffman.c; 0: a longer code */
    Pair pairs[1 << LOOKED_UP]; /* of AC codes */
    int32_t last_code[17];           /* the greatest code of each length; -1: none */
    int32_t to_symbol[17];           /* what to add to a code of that length to get its place in `symbols` */
    uint8_t symbols[256];
} Codes;

/* A `lookup` entry: how many bits to step on (6 bits), whether the number behind the code is in it too (bit 6), then 8
   bits: how many zeros come before (with the number) or the symbol (without), and the number in the upper half. */
enum { LENGTH = 63, IS_RESOLVED = 64, BEHIND_BLOCK = 96 /* zeros of an end-of-block: past any run */ };

int define_codes(const uint8_t counts[16], int is_ac, Codes *codes);

/* The coded data up to the next marker, which is left at `*at`; into `unstuffed` without the zeros behind each 0xff,
   unless that is NULL. Its number of bytes; -1 where no marker follows. */
ptrdiff_t next_stretch(const uint8_t **at, const uint8_t *end, uint8_t *unstuffed);

/* The next `count` bits are the topmost of `bits`; at least 56 after `refill`. */
typedef struct {
    uint64_t bits;
    int count;
    const uint8_t *next;
} Bits;

INLINE void refill(Bits *from) {
    uint64_t word;
    memcpy(&word, from->next, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    from->bits |= word >> from->count;
    from->next += (63 - from->count) >> 3;
    from->count |= 56;
}

INLINE void step_on(Bits *from, unsigned length) {
    from->bits <<= length;
    from->count -= (int)length;
}

/* A number of `size` bits; with its first bit 0 it is negative. */
INLINE int extended(uint32_t raw, int size) { return raw >> (size - 1) ? (int)raw : (int)raw - (1 << size) + 1; }

/* The symbol of the next code, which is stepped over; -1: there is no such code. */
static inline int next_symbol(const Codes *codes, uint32_t found, Bits *from) {
    if (found) {
        step_on(from, found & LENGTH);
        return found >> 8 & 255;
    }
    for (int length = LOOKED_UP + 1; length <= 16; length++) {
        int32_t code = (int32_t)(from->bits >> (64 - length));
        if (code <= codes->last_code[length]) {
            step_on(from, (unsigned)length);
            return codes->symbols[code + codes->to_symbol[length]];
        }
    }
    return -1;
}

INLINE int next_number(Bits *from, int size) {
    int number = extended((uint32_t)(from->bits >> (64 - size)), size);
    step_on(from, (unsigned)size);
    return number;
}

INLINE uint32_t look_up(const Codes *codes, const Bits *from) { return codes->lookup[from->bits >> (64 - LOOKED_UP)]; }

INLINE int read_dc(const Codes *codes, Bits *from, int *difference) {
    refill(from);
    uint32_t found = look_up(codes, from);
    if (found & IS_RESOLVED) {
        *difference = (int16_t)(found >> 16);
        step_on(from, found & LENGTH);
        return OK;
    }
    int size = next_symbol(codes, found, from);
    if (size < 0) return NOT_OURS;
    *difference = size ? next_number(from, size) : 0;
    return OK;
}

/* A block's 64 coefficients, and what a damaged one may run over the end by. */
enum { BLOCK_ROOM = 112 };

/* The compiler's own way to clear them takes a tenth of the time to read them. */
INLINE void clear(int16_t *coefficients) {
    for (int part = 0; part < 4; part++)
        _mm256_store_si256((__m256i *)(void *)(coefficients + 16 * part), _mm256_setzero_si256());
}

/* What two looked-up numbers that reach past the end leave to do: the second may belong to the next block. */
INLINE int end_with_first(const Codes *codes, Bits *from, unsigned place) {
    uint32_t first = look_up(codes, from);
    step_on(from, first & LENGTH);
    return place + (first >> 8 & 255) == 63 ? OK : NOT_OURS;
}

INLINE unsigned at_place(unsigned place, int in_zigzag) { return in_zigzag ? place : NATURAL[place]; }

/* Into BLOCK_ROOM coefficients of which the first 64 are zero, in zigzag or natural order; what runs over the end goes
   behind them. After a refill, five pairs can be looked up. */
INLINE int read_ac(const Codes *codes, Bits *from, int16_t *coefficients, int in_zigzag) {
    for (unsigned place = 1; place < 64;) {
        const Pair *pair;
        refill(from);
        for (int number = 0; number < 5; number++) {
            pair = &codes->pairs[from->bits >> (64 - LOOKED_UP)];
            if (!pair->length) break;
            coefficients[at_place(place + pair->first, in_zigzag)] = pair->numbers[0];
            coefficients[at_place(place + pair->second, in_zigzag)] = pair->numbers[1];
            unsigned behind = place + pair->behind;
            if (behind >= 64) {
                if (behind > 64 && (behind < BEHIND_BLOCK || behind > BEHIND_BLOCK + 63))
                    return end_with_first(codes, from, place);
                step_on(from, pair->length);
                return OK;
            }
            place = behind;
            step_on(from, pair->length);
        }
        if (pair->length) continue;
        refill(from);
        int symbol = next_symbol(codes, look_up(codes, from), from), size = symbol & 15;
        if (symbol == 0) return OK;
        place += (unsigned)symbol >> 4;
        if (symbol < 0 || place > 63 || (!size && symbol != 0xF0)) return NOT_OURS;
        coefficients[at_place(place++, in_zigzag)] = size ? (int16_t)next_number(from, size) : 0;
    }
    return OK;
}

#endif
