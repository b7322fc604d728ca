/* Coefficients to symbols, and these to coded data. */

#include "tokens.h"

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

void add_units(Tokens *to, const Coefficients *picture, int interval) {
    int predictions[MAX_COMPONENTS] = {0}, left = interval;
    for (int row = 0; row < picture->unit_rows; row++)
        for (int column = 0; column < picture->unit_columns; column++, left--) {
            Token *first = to->next;
            if (!left) memset(predictions, 0, sizeof predictions);
            add_unit(to, picture, row, column, predictions);
            if (!left) *first |= IS_RESTART, left = interval;
        }
}

/* The bytes of a stretch: bits wait in the upper part of `bits`, and whole bytes of them are behind `at` already. */
typedef struct {
    uint64_t bits;
    unsigned count; /* less than 8 */
    uint8_t *at;
} Stretch;

/* At most 32 bits, the others being 0. No branch, as that would be a wrong guess every few symbols. */
INLINE void put_bits(Stretch *to, uint64_t bits, unsigned length) {
    to->count += length;
    to->bits |= bits << (64 - to->count);
    uint64_t bytes = __builtin_bswap64(to->bits);
    memcpy(to->at, &bytes, 8);
    to->at += to->count >> 3;
    to->bits <<= to->count & 56;
    to->count &= 7;
}

/* Fills up the last byte with ones, and writes a zero behind each byte that is all ones. Leaves the stretch empty. */
static uint8_t *put_stretch(Stretch *stretch, uint8_t *raw, uint8_t *at) {
    unsigned padding = (8 - stretch->count) % 8;
    if (padding) put_bits(stretch, (1u << padding) - 1, padding);
    const uint8_t *from = raw, *end = stretch->at;
    for (const uint8_t *escape; (escape = memchr(from, 0xFF, (size_t)(end - from))); from = escape + 1) {
        size_t length = (size_t)(escape - from) + 1;
        memcpy(at, from, length);
        at[length] = 0;
        at += length + 1;
    }
    memcpy(at, from, (size_t)(end - from));
    *stretch = (Stretch){.at = raw};
    return at + (end - from);
}

uint8_t *put_tokens(const Tokens *tokens, const OptimalCodes codes[4], uint8_t *raw, uint8_t *at) {
    uint32_t written[4 * 256]; /* of each symbol, its code with room for the bits behind it, and the length of both */
    for (int table = 0; table < 4; table++)
        for (int symbol = 0; symbol < 256; symbol++)
            written[table << 8 | symbol] = (uint32_t)codes[table].codes[symbol] << (symbol & 15) << 5 |
                                           (uint32_t)(codes[table].lengths[symbol] + (symbol & 15));
    int restart = 0;
    Stretch stretch = {.at = raw};
    for (const Token *token = tokens->tokens; token < tokens->next; token++) {
        if (*token & IS_RESTART) {
            at = put_stretch(&stretch, raw, at);
            *at++ = 0xFF, *at++ = (uint8_t)(RESTART_0 + restart++ % 8);
        }
        uint32_t found = written[*token & TABLE_AND_SYMBOL];
        put_bits(&stretch, found >> 5 | *token >> 16, found & 31);
    }
    return put_stretch(&stretch, raw, at);
}
