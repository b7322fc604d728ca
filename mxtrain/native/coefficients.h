/* All coefficients of a JPEG, read from one file and written to another.

   Owns 8-bit JPEGs with Huffman codes, sequential or progressive, of one component or three, in any number of scans.
   Functions that can refuse a file return why, or NULL: what libjpeg would warn of is refused, and so is what it
   would not write. NO_MORE_MEMORY is a reason too.

   Reads top to bottom: coefficients.c (markers and scans), progressive.c (the blocks of progressive scans), optimal.c
   (codes for what is to be written), tokens.c (what is to be written), rewrite.c (the file that is written). */

#ifndef MXTRAIN_COEFFICIENTS_H
#define MXTRAIN_COEFFICIENTS_H

#include "jpeg.h"

#define MAX_COMPONENTS 3
#define MAX_UNIT_BLOCKS 10 /* of libjpeg */

extern const char NO_MORE_MEMORY[], DAMAGED[];

typedef struct {
    uint8_t id, table; /* of quantizers */
    int horizontal, vertical;
    int columns, rows; /* of blocks, without those that only fill up units */
    int is_seen;
    uint16_t quantizers[64]; /* in zigzag order, as they were at its first scan */
    int8_t missing[64];      /* of each coefficient, the lower bits that no scan has brought yet; -1: all */
    int16_t *blocks;         /* 64 coefficients each, in zigzag order */
} Component;

typedef struct {
    int height, width, is_progressive;
    int num_components, kind; /* as `kind_of` says */
    int unit_rows, unit_columns;
    int has_frame;
    Component components[MAX_COMPONENTS];
    Tables tables;
    Colours colours;
    uint8_t *kept; /* the segments with metadata, in their order */
    size_t kept_bytes;
    int16_t *blocks;
    int is_compared; /* the blocks are those of another picture, and must not differ from them */
} Coefficients;

/* Instead of being stored, the coefficients may be compared with those of a picture of the same frame: one that differs
   is damage. That takes a sequential file. */
const char *read_coefficients(const uint8_t *bytes, size_t num_bytes, const Coefficients *expected,
                              Coefficients *picture);
void release(Coefficients *picture);

/* A scan, and what is carried from block to block in it. */
typedef struct {
    int num_components;
    Component *components[MAX_COMPONENTS];
    const Codes *dc[MAX_COMPONENTS], *ac[MAX_COMPONENTS];
    int first, last; /* of each block's coefficients */
    int high, low;   /* it brings their bits from `low` to `high`; 0: to the topmost */
    int predictions[MAX_COMPONENTS];
    int is_progressive, is_compared;
    unsigned ending; /* blocks to come that have no more new coefficients */
} Scan;

/* A block's part in a progressive scan, into its coefficients. */
int read_progressive(Scan *scan, int component, Bits *from, int16_t *block);

/* Optimal codes for symbols that come this often. */
typedef struct {
    uint8_t counts[16], symbols[256];
    int num_symbols;
    uint16_t codes[256]; /* by symbol */
    uint8_t lengths[256];
} OptimalCodes;

void make_codes(const uint32_t frequencies[256], OptimalCodes *codes);

/* The same coefficients in one scan, with a restart marker every `interval` units, in memory of its own. */
const char *write_coefficients(const Coefficients *picture, int interval, uint8_t **written, size_t *num_bytes);

/* `read_coefficients` of the bytes, `write_coefficients`, and a comparison of what was written with what was read. */
const char *rewrite(const uint8_t *bytes, size_t num_bytes, int interval, uint8_t **written, size_t *num_written);

#endif
