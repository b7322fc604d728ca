/* The places of all samples are the rows of a product, of which each tap of the kernel takes other ones: they are read where
   they are. Six places and a panel of outputs stay in registers through all taps. */

#include "finished.h"
#include "sizes.h"
#include "threads.h"

#define AT_ONCE_NUMBERS 65536 /* of the input, which stay in the cache of the second level for all outputs, */
#define FEWEST_BLOCKS 4       /* in blocks of rows, so that weights are read for many, */
#define MOST_BLOCKS 64        /* and not for more than tasks are for */
#define TASKS 4               /* of a thread */
#define FEW_WEIGHTS 300000    /* are read again for each block of rows, whose outputs are written side by side */

/* Rows are where each tap of each place reads, `taps` of a place; weights go on from a tap to the next. */
INLINE void multiply_places(const size_t count, const Activation activation, const Convolution *layer, const float *const *rows,
                            const float *panel, size_t place, float *out) {
    size_t taps = layer->kernel * layer->kernel, depth = layer->inputs;
    __m256 sums[ROWS][2];
#pragma GCC unroll 6
    for (size_t row = 0; row < count; row++) sums[row][0] = _mm256_loadu_ps(panel), sums[row][1] = _mm256_loadu_ps(panel + 8);
    panel += PANEL;
    for (size_t tap = 0; tap < taps; tap++) {
        const float *from[ROWS];
#pragma GCC unroll 6
        for (size_t row = 0; row < count; row++) from[row] = rows[row * taps + tap];
        for (size_t at = 0; at < depth; at++, panel += PANEL) {
            __m256 low = _mm256_loadu_ps(panel), high = _mm256_loadu_ps(panel + 8);
#pragma GCC unroll 6
            for (size_t row = 0; row < count; row++) {
                __m256 factor = _mm256_broadcast_ss(from[row] + at);
                sums[row][0] = _mm256_fmadd_ps(factor, low, sums[row][0]);
                sums[row][1] = _mm256_fmadd_ps(factor, high, sums[row][1]);
            }
        }
    }
#pragma GCC unroll 6
    for (size_t row = 0; row < count; row++)
#pragma GCC unroll 2
        for (size_t half = 0; half < 2; half++)
            finish(activation, layer, sums[row][half], place + row * layer->outputs + half * LANES, out);
}

INLINE void multiply_panels_of(const Activation activation, const Convolution *layer, const float *const *rows, size_t first,
                               size_t count, size_t panel, size_t end, float *out) {
    size_t taps = layer->kernel * layer->kernel;
    for (; panel < end; panel++) {
        const float *weights = layer->weights + panel * panel_size(taps, layer->inputs);
        for (size_t row = 0; row < count; row += ROWS) {
            size_t place = (first + row) * layer->outputs + panel * PANEL;
            const float *const *from = rows + row * taps;
            switch (count - row) {
            case 1: multiply_places(1, activation, layer, from, weights, place, out); break;
            case 2: multiply_places(2, activation, layer, from, weights, place, out); break;
            case 3: multiply_places(3, activation, layer, from, weights, place, out); break;
            case 4: multiply_places(4, activation, layer, from, weights, place, out); break;
            case 5: multiply_places(5, activation, layer, from, weights, place, out); break;
            default: multiply_places(6, activation, layer, from, weights, place, out);
            }
        }
    }
}

FMA static void multiply_all(const Convolution *layer, const float *const *rows, size_t first, size_t count, size_t panel,
                             size_t end, float *out) {
    FOR_ACTIVATIONS(layer->activation, multiply_panels_of, layer, rows, first, count, panel, end, out)
}

/* Write where the taps of the places from `first` on read; those outside of a picture read zeros. */
static void find_rows(const Convolution *layer, size_t first, size_t count, const float *zeros, const float **rows) {
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
}

static size_t places_of(const Convolution *layer) {
    return layer->batch * out_side(layer, layer->height) * out_side(layer, layer->width);
}

static size_t blocks_at_once(const Convolution *layer) {
    size_t most = AT_ONCE_NUMBERS / (ROWS * layer->inputs * layer->stride * layer->stride);
    return most < FEWEST_BLOCKS ? FEWEST_BLOCKS : least(most, MOST_BLOCKS);
}

static size_t rows_size(const Convolution *layer) {
    return blocks_at_once(layer) * ROWS * layer->kernel * layer->kernel * sizeof(float *);
}

size_t direct_scratch(const Convolution *layer, int num_threads) {
    return (size_t)num_threads * rows_size(layer) + layer->inputs * sizeof(float);
}

void direct_forward(const Convolution *layer, float *out, void *scratch, int num_threads) {
    size_t places = places_of(layer), blocks = (places + ROWS - 1) / ROWS, most = blocks_at_once(layer);
    size_t panels = layer->outputs / PANEL, threads = (size_t)num_threads, taps = layer->kernel * layer->kernel;
    size_t together = taps * layer->inputs * layer->outputs <= FEW_WEIGHTS ? ROWS : most * ROWS;
    size_t chunks = least(blocks, rounded_up((blocks + most - 1) / most, threads));
    size_t groups = least(panels, (TASKS * threads + chunks - 1) / chunks); /* of panels, where there are few places */
    float *zeros = (float *)((char *)scratch + (size_t)num_threads * rows_size(layer));
    for (size_t at = 0; at < layer->inputs; at++) zeros[at] = 0;
#pragma omp parallel num_threads(num_threads)
    {
        const float **rows = (const float **)((char *)scratch + (size_t)omp_get_thread_num() * rows_size(layer));
#pragma omp for schedule(dynamic)
        for (size_t task = 0; task < chunks * groups; task++) {
            size_t chunk = task / groups, group = task % groups;
            size_t first = chunk * blocks / chunks * ROWS, count = least((chunk + 1) * blocks / chunks * ROWS, places) - first;
            find_rows(layer, first, count, zeros, rows);
            for (size_t row = 0; row < count; row += together)
                multiply_all(layer, rows + row * taps, first + row, least(together, count - row), group * panels / groups,
                             (group + 1) * panels / groups, out);
        }
    }
}
