/* The box as a whole: which units it needs, and memory for their samples. */

#include <stdlib.h>

#include "crop.h"

/* The units that hold these pixels and, where chroma is spread, the sample of it on either side. */
static void cover(int start, int length, int sampling, int size, int *first, int *end) {
    int margin = sampling == 2, num_samples = (size + sampling - 1) / sampling;
    int low = start / sampling - margin, high = (start + length - 1) / sampling + margin;
    *first = (low < 0 ? 0 : low) / 8;
    *end = (high >= num_samples ? num_samples - 1 : high) / 8 + 1;
}

static int weave_rows(const Rows *source, uint8_t *rgb) {
    size_t width = (size_t)source->width, stride = width + ROW_ROOM;
    uint8_t *colours = malloc(3 * stride);
    if (!colours) return NO_MEMORY;
    for (int row = 0; row < source->height; row++, rgb += 3 * width) {
        source->read(source->of, row, colours, stride);
        weave_row(colours, stride, width, rgb);
    }
    free(colours);
    return OK;
}

int decode_box(const Jpeg *jpeg, const Box *box, int height, int width, uint8_t *rgb) {
    Planes planes;
    cover(box->top, box->height, jpeg->vertical, jpeg->height, &planes.first_row, &planes.end_row);
    cover(box->left, box->width, jpeg->horizontal, jpeg->width, &planes.first_column, &planes.end_column);
    size_t rows = 8 * (size_t)(planes.end_row - planes.first_row),
           columns = 8 * (size_t)(planes.end_column - planes.first_column);
    size_t luma = rows * (size_t)jpeg->vertical * columns * (size_t)jpeg->horizontal, chroma = rows * columns;
    size_t scratch = DECODED_ROWS(box->width);
    uint8_t *memory = malloc(luma + 2 * chroma + scratch + jpeg->scan_bytes + PADDING);
    if (!memory) return NO_MEMORY;
    for (int component = 0; component < NUM_COMPONENTS; component++) {
        planes.samples[component] = memory + (component ? luma + (size_t)(component - 1) * chroma : 0);
        planes.stride[component] = component ? columns : columns * (size_t)jpeg->horizontal;
    }
    uint8_t *behind = memory + luma + 2 * chroma;
    Decoded decoded = {jpeg, &planes, box, behind};
    Rows source = {read_decoded, &decoded, box->height, box->width};
    int failed = decode_units(jpeg, &planes, behind + scratch);
    if (!failed && height == box->height && width == box->width) failed = weave_rows(&source, rgb);
    else if (!failed) failed = resize(&source, height, width, rgb);
    free(memory);
    return failed;
}
