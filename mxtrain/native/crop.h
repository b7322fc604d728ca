/* A box of a baseline JPEG, decoded to the very pixels that libjpeg-turbo makes of it.

   Owns the JPEGs that training sets are made of: 8-bit baseline Huffman, one scan, YCbCr with chroma at 4:4:4, 4:2:2 or
   4:2:0. Whatever else a file is, or whatever is wrong with it, NOT_OURS is returned, and libjpeg-turbo decides.

   Reads top to bottom: parse.c (what stands before the scan), huffman.c (bits to coefficients, of the box only where
   restart markers allow it), idct.c (coefficients to samples), colour.c (samples to rows of RGB), resize.c (to the size
   that is wanted), planes.c (colours side by side and apart). */

#ifndef MXTRAIN_CROP_H
#define MXTRAIN_CROP_H

#include "jpeg.h"

#define NUM_COMPONENTS 3

typedef struct {
    const uint8_t *scan; /* the coded data, up to the end of the file */
    size_t scan_bytes;
    int height, width;
    int horizontal, vertical; /* luma samples to one of chroma, each way: a unit (MCU) has 8 times as many */
    int interval;             /* units from one restart marker to the next; 0: none */
    int16_t quantizers[NUM_COMPONENTS][64]; /* in natural order */
    const uint8_t *codes[2][2]; /* [is_ac][table], as in Tables */
    uint8_t table[2][NUM_COMPONENTS]; /* [is_ac][component]: which of them */
} Jpeg;

typedef struct {
    int top, left, height, width;
} Box;

/* The units that a box needs, and their samples: luma, Cb, Cr, each `rows` x `stride` from the first unit on. */
typedef struct {
    int first_row, end_row, first_column, end_column; /* in units */
    uint8_t *samples[NUM_COMPONENTS];
    size_t stride[NUM_COMPONENTS];
} Planes;

int parse_jpeg(const uint8_t *bytes, size_t num_bytes, Jpeg *jpeg);
/* `unstuffed` takes the scan's bytes and the padding. */
int decode_units(const Jpeg *jpeg, const Planes *planes, uint8_t *unstuffed);
void inverse_dct(const int16_t *coefficients, const int16_t *quantizers, uint8_t *samples, size_t stride);

/* What the rows of a box are made of; `rows` is scratch, DECODED_ROWS(width) bytes. */
typedef struct {
    const Jpeg *jpeg;
    const Planes *planes;
    const Box *box;
    uint8_t *rows;
} Decoded;

#define DECODED_ROWS(width) (4 * (size_t)(width) + 64)
/* The part of `Rows` that reads a row of `Decoded`. */
void read_decoded(const void *decoded, int row, uint8_t *colours, size_t stride);

/* A picture, read row by row: red, green and blue apart, each `stride` bytes behind the one before, which is ROW_ROOM
   bytes more than the width at least. What lies between them is undefined. */
typedef struct {
    void (*read)(const void *of, int row, uint8_t *colours, size_t stride);
    const void *of;
    int height, width;
} Rows;

#define ROW_ROOM 32

/* `rgb` takes height x width x 3 bytes. NOT_OURS where the picture shrinks to half or less. */
int resize(const Rows *source, int height, int width, uint8_t *rgb);

/* RGB, `stride` bytes from one row to the next, which may lie before it. */
typedef struct {
    const uint8_t *pixels;
    size_t height, width;
    ptrdiff_t stride;
} Pixels;

/* Three planes of height x width, one for each colour. */
void to_floats(const Pixels *image, const float scale[3], const float offset[3], float *planes);
void to_bytes(const Pixels *image, uint8_t *planes);
/* The part of `Rows` that reads a row of `Pixels`, and its opposite. */
void read_pixels(const void *pixels, int row, uint8_t *colours, size_t stride);
void weave_row(const uint8_t *colours, size_t stride, size_t width, uint8_t *rgb);

/* Resized, unless that is its size. NOT_OURS also where `resize` says so. */
int decode_box(const Jpeg *jpeg, const Box *box, int height, int width, uint8_t *rgb);

#endif
