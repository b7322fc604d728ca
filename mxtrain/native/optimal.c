/* Huffman codes of least length for given frequencies, none longer than 16 bits: Annex K.2 of ITU-T T.81. */

#include "coefficients.h"

/* One more symbol than there are, whose code is all ones, which no symbol may have. */
enum { RESERVED = 256, NUM_NODES = 257, LONGEST = 16 };

/* The least frequent nodes come last; of equally frequent ones, that of the greatest number. */
static void insert(uint64_t *nodes, int count, uint64_t node) {
    for (; count && nodes[count - 1] < node; count--) nodes[count] = nodes[count - 1];
    nodes[count] = node;
}

static int number_of(uint64_t node) { return RESERVED - (int)(node & 511); }

/* How many codes there are of each length, up to one for each symbol, before any limit. */
static void measure(const uint32_t frequencies[256], int lengths[NUM_NODES], int num_of_length[NUM_NODES + 1]) {
    uint64_t nodes[NUM_NODES];
    int count = 0, next[NUM_NODES]; /* in the tree of which a node is the first, the node behind it */
    for (int number = 0; number < NUM_NODES; number++) {
        uint64_t frequency = number == RESERVED ? 1 : frequencies[number];
        lengths[number] = 0, next[number] = -1;
        if (frequency) insert(nodes, count++, frequency << 9 | (uint64_t)(RESERVED - number));
    }
    while (count > 1) {
        int one = number_of(nodes[count - 1]), other = number_of(nodes[count - 2]), last = one;
        uint64_t sum = (nodes[count - 1] >> 9) + (nodes[count - 2] >> 9);
        for (int node = one; node >= 0; node = next[node]) lengths[node]++, last = node;
        next[last] = other;
        for (int node = other; node >= 0; node = next[node]) lengths[node]++;
        count -= 2;
        insert(nodes, count++, sum << 9 | (uint64_t)(RESERVED - one));
    }
    memset(num_of_length, 0, (NUM_NODES + 1) * sizeof *num_of_length);
    for (int number = 0; number < NUM_NODES; number++) num_of_length[lengths[number]]++;
    num_of_length[0] = 0;
}

/* Two of the longest codes share a prefix: one takes that; in place of a shorter code come two, of it and the other. */
static void limit(int num_of_length[NUM_NODES + 1]) {
    for (int length = NUM_NODES; length > LONGEST; length--)
        while (num_of_length[length]) {
            int shorter = length - 2;
            while (!num_of_length[shorter]) shorter--;
            num_of_length[length] -= 2, num_of_length[length - 1]++;
            num_of_length[shorter + 1] += 2, num_of_length[shorter]--;
        }
    int longest = LONGEST;
    while (!num_of_length[longest]) longest--;
    num_of_length[longest]--; /* the reserved one's */
}

void make_codes(const uint32_t frequencies[256], OptimalCodes *codes) {
    int lengths[NUM_NODES], num_of_length[NUM_NODES + 1];
    measure(frequencies, lengths, num_of_length);
    limit(num_of_length);
    memset(codes, 0, sizeof *codes);
    int num_used = 0;
    for (int symbol = 0; symbol < RESERVED; symbol++) num_used += frequencies[symbol] > 0;
    for (int length = 1; codes->num_symbols < num_used; length++)
        for (int symbol = 0; symbol < RESERVED; symbol++)
            if (lengths[symbol] == length) codes->symbols[codes->num_symbols++] = (uint8_t)symbol;
    int place = 0;
    for (unsigned length = 1, code = 0; length <= LONGEST; length++, code <<= 1) {
        codes->counts[length - 1] = (uint8_t)num_of_length[length];
        for (int of_length = 0; of_length < num_of_length[length]; of_length++, place++, code++) {
            codes->codes[codes->symbols[place]] = (uint16_t)code;
            codes->lengths[codes->symbols[place]] = (uint8_t)length;
        }
    }
}
