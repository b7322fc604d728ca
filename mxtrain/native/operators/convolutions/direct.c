/* The places of all samples are the rows of a product, of which each tap of the kernel takes other ones: they are read where
   they are. Of pictures in plain order, with their few channels, a tap is a row of the kernel and of one channel: lines of
   the picture with padding around them are read for it. */

#include <string.h>

#include "convolutions/convolution.h"
#include "convolutions/places.h"
#include "sizes.h"
#include "threads.h"

#define AT_ONCE_NUMBERS 65536 /* of the input, which stay in the cache of the second level for all outputs, */
#define FEWEST_BLOCKS 4       /* in blocks of rows, so that weights are read for many, */
#define MOST_BLOCKS 64        /* and not for more than tasks are for */
#define TASKS 4               /* of a thread */
#define FEW_WEIGHTS 300000    /* are read again for each block of rows, whose outputs are written side by side */

/* Return the places from `first` on; taps outside of a picture read zeros. */
static Places places_of(const Convolution *layer, size_t first, size_t count, const float *zeros, float *out, void **pointers) {
    size_t taps = layer->kernel * layer->kernel, outputs = layer->outputs;
    Places places = {count, taps, layer->inputs, (const float **)pointers, (float **)pointers + count * taps, NULL};
    if (layer->added) places.added = (const float **)pointers + count * (taps + 1);
    for (size_t at = 0; at < count; at++) {
        places.to[at] = out + (first + at) * outputs;
        if (layer->added) places.added[at] = layer->added + (first + at) * outputs;
    }
    const float **rows = places.rows;
    size_t height = out_side(layer, layer->height), width = out_side(layer, layer->width);
    for (size_t place = first; place < first + count; place++) {
        size_t top = place / width % height * layer->stride, left = place % width * layer->stride;
        const float *sample = layer->in + place / width / height * layer->height * layer->width * layer->inputs;
        for (size_t down = 0; down < layer->kernel; down++)
            for (size_t right = 0; right < layer->kernel; right++) {
                size_t row = top + down - layer->pad, column = left + right - layer->pad; /* before 0 they are huge */
                int is_inside = row < layer->height && column < layer->width;
                *rows++ = is_inside ? sample + (row * layer->width + column) * layer->inputs : zeros;
            }
    }
    return places;
}

static size_t num_places(const Convolution *layer) {
    return layer->batch * out_side(layer, layer->height) * out_side(layer, layer->width);
}

static size_t blocks_at_once(const Convolution *layer) {
    size_t most = AT_ONCE_NUMBERS / (ROWS * layer->inputs * layer->stride * layer->stride);
    return most < FEWEST_BLOCKS ? FEWEST_BLOCKS : least(most, MOST_BLOCKS);
}

static size_t pointers_size(const Convolution *layer) {
    return blocks_at_once(layer) * ROWS * (layer->kernel * layer->kernel + 2) * sizeof(void *);
}

static void multiply_panels_of(const Convolution *layer, Places places, size_t panel, size_t end) {
    for (; panel < end; panel++)
        multiply_places(layer->activation, places, layer->weights + panel * panel_size(places.taps, places.depth), panel * PANEL,
                        least(PANEL, layer->outputs - panel * PANEL));
}

size_t direct_scratch(const Convolution *layer, int num_threads) {
    return (size_t)num_threads * pointers_size(layer) + layer->inputs * sizeof(float);
}

void direct_forward(const Convolution *layer, float *out, void *scratch, int num_threads) {
    size_t all = num_places(layer), blocks = (all + ROWS - 1) / ROWS, most = blocks_at_once(layer);
    size_t panels = num_panels(layer->outputs), threads = (size_t)num_threads, taps = layer->kernel * layer->kernel;
    size_t together = taps * layer->inputs * layer->outputs <= FEW_WEIGHTS ? ROWS : most * ROWS;
    size_t chunks = least(blocks, rounded_up((blocks + most - 1) / most, threads));
    size_t groups = least(panels, (TASKS * threads + chunks - 1) / chunks); /* of panels, where there are few places */
    float *zeros = (float *)((char *)scratch + (size_t)num_threads * pointers_size(layer));
    for (size_t at = 0; at < layer->inputs; at++) zeros[at] = 0;
#pragma omp parallel num_threads(num_threads)
    {
        void **pointers = (void **)((char *)scratch + (size_t)omp_get_thread_num() * pointers_size(layer));
#pragma omp for schedule(dynamic)
        for (size_t task = 0; task < chunks * groups; task++) {
            size_t chunk = task / groups, group = task % groups;
            size_t first = chunk * blocks / chunks * ROWS, count = least((chunk + 1) * blocks / chunks * ROWS, all) - first;
            Places places = places_of(layer, first, count, zeros, out, pointers);
            for (size_t at = 0; at < count; at += together)
                multiply_panels_of(layer, places_from(places, at, least(together, count - at)), group * panels / groups,
                                   (group + 1) * panels / groups);
        }
    }
}

static size_t line_size(const Convolution *layer) { return layer->width + 2 * layer->pad; }
static size_t num_lines(const Convolution *layer, size_t rows) { return (rows - 1) * layer->stride + layer->kernel; }

size_t lines_size(const Convolution *layer, size_t rows) { return num_lines(layer, rows) * layer->inputs * line_size(layer); }

void put_lines(const Convolution *layer, size_t sample, size_t first, size_t rows, float *lines) {
    for (size_t at = 0; at < num_lines(layer, rows) * layer->inputs; at++, lines += line_size(layer)) {
        size_t row = first * layer->stride + at / layer->inputs - layer->pad; /* before 0 it is huge */
        size_t plane = sample * layer->inputs + at % layer->inputs;
        const float *from = layer->in + (plane * layer->height + row) * layer->width;
        if (row >= layer->height) {
            memset(lines, 0, line_size(layer) * sizeof *lines);
            continue;
        }
        memset(lines, 0, layer->pad * sizeof *lines);
        memcpy(lines + layer->pad, from, layer->width * sizeof *lines);
        memset(lines + layer->pad + layer->width, 0, layer->pad * sizeof *lines);
    }
}

void point_at_lines(const Convolution *layer, size_t rows, const float *lines, const float **taps) {
    for (size_t row = 0; row < rows; row++)
        for (size_t column = 0; column < out_side(layer, layer->width); column++)
            for (size_t input = 0; input < layer->inputs; input++)
                for (size_t down = 0; down < layer->kernel; down++)
                    *taps++ = lines + ((row * layer->stride + down) * layer->inputs + input) * line_size(layer) + column * layer->stride;
}

/* The bytes of pointers, and with them those of lines. */
static size_t plain_pointers_size(const Convolution *layer) {
    return out_side(layer, layer->width) * (layer->inputs * layer->kernel + 1) * sizeof(void *);
}
static size_t plain_size(const Convolution *layer) {
    return plain_pointers_size(layer) + rounded_up(lines_size(layer, 1) * sizeof(float), sizeof(void *));
}

size_t plain_scratch(const Convolution *layer, int num_threads) { return (size_t)num_threads * plain_size(layer); }

void plain_forward(const Convolution *layer, float *out, void *scratch, int num_threads) {
    size_t height = out_side(layer, layer->height), width = out_side(layer, layer->width), taps = layer->inputs * layer->kernel;
#pragma omp parallel num_threads(num_threads)
    {
        void **pointers = (void **)((char *)scratch + (size_t)omp_get_thread_num() * plain_size(layer));
        float *lines = (float *)((char *)pointers + plain_pointers_size(layer));
        Places places = {width, taps, layer->kernel, (const float **)pointers, (float **)pointers + width * taps, NULL};
        point_at_lines(layer, 1, lines, places.rows);
#pragma omp for schedule(static)
        for (size_t row = 0; row < layer->batch * height; row++) {
            put_lines(layer, row / height, row % height, 1, lines);
            for (size_t at = 0; at < width; at++) places.to[at] = out + (row * width + at) * layer->outputs;
            multiply_panels_of(layer, places, 0, num_panels(layer->outputs));
        }
    }
}
