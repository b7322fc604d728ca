/* A thread expands a sample to as many channels as a block of the product has rows, and convolves these while they are in
   the cache. Panels of whole sixteens are read where they lie. */

#include "expanded.h"

#include <string.h>

#include "activated.h"
#include "few_columns.h"
#include "gate.h"
#include "product_block.h"
#include "threads.h"

#define TASKS 4 /* of a thread at least */

typedef struct {
    float *last, *few, *expanded, *padded; /* places behind whole panels; numbers of few of them, for all channels */
} Scratch;

static size_t whole_panels(size_t places) { return (places + PANEL - 1) / PANEL * PANEL; }

static size_t cut(const Expanded *layer, float *memory, Scratch *scratch) {
    const Pointwise *expansion = &layer->expansion;
    size_t rows = (expansion->outputs + ROWS - 1) / ROWS * ROWS;
    size_t sizes[] = {expansion->inputs * PANEL, rows * FEW, ROWS * whole_panels(expansion->plane), padded_size(&layer->geometry)};
    float **arrays[] = {&scratch->last, &scratch->few, &scratch->expanded, &scratch->padded};
    return cut_memory(memory, sizes, arrays, sizeof sizes / sizeof *sizes);
}

size_t expanded_scratch(const Expanded *layer) {
    Scratch scratch;
    return whole_lanes(cut(layer, NULL, &scratch));
}

INLINE void expand_panel(const size_t count, const Activation activation, const float *weights, const float *panel,
                         size_t step, size_t depth, float *out, size_t stride) {
    __m256 sums[ROWS][2];
#pragma GCC unroll 6
    for (size_t row = 0; row < count; row++) sums[row][0] = sums[row][1] = _mm256_broadcast_ss(weights + row);
    add_products(count, (Matrix){weights + ROWS, 1, ROWS}, panel, step, depth, sums);
#pragma GCC unroll 6
    for (size_t row = 0; row < count; row++) {
        _mm256_storeu_ps(out + row * stride, activated(activation, sums[row][0]));
        _mm256_storeu_ps(out + row * stride + LANES, activated(activation, sums[row][1]));
    }
}

/* Expand a sample to all rows of a block, behind the last of which weights are zeros. */
INLINE void expand_block(const Activation activation, const Expanded *layer, const float *in, size_t row,
                         const Scratch *scratch) {
    size_t plane = layer->expansion.plane, depth = layer->expansion.inputs, stride = whole_panels(plane);
    const float *weights = layer->expansion.weights + row * (depth + 1);
    size_t place = 0;
    for (; place + PANEL <= plane; place += PANEL)
        expand_panel(ROWS, activation, weights, in + place, plane, depth, scratch->expanded + place, stride);
    if (place == plane) return;
    if (!few_behind(plane)) {
        expand_panel(ROWS, activation, weights, scratch->last, PANEL, depth, scratch->expanded + place, stride);
        return;
    }
    for (size_t each = 0; each < ROWS; each++)
        memcpy(scratch->expanded + each * stride + place, scratch->few + (row + each) * FEW, (plane - place) * sizeof *in);
}

FMA static void expand(const Expanded *layer, const float *in, size_t row, const Scratch *scratch) {
    FOR_ACTIVATIONS(layer->expansion.activation, expand_block, layer, in, row, scratch)
}

/* Put the places behind the last whole panel together, or compute them for all channels of some blocks. */
static void put_last(const Expanded *layer, const float *in, size_t first_block, size_t end_block, const Scratch *scratch) {
    const Pointwise *expansion = &layer->expansion;
    size_t plane = expansion->plane, depth = expansion->inputs, count = plane % PANEL, row = first_block * ROWS;
    if (!count) return;
    if (few_behind(plane)) {
        multiply_few(expansion->activation, expansion->weights + row * (depth + 1), depth, end_block - first_block,
                     in + plane - count, plane, count, scratch->few + row * FEW);
        return;
    }
    for (size_t input = 0; input < depth; input++) {
        float *to = scratch->last + input * PANEL;
        memcpy(to, in + (input + 1) * plane - count, count * sizeof *to);
        memset(to + count, 0, (PANEL - count) * sizeof *to);
    }
}

static void convolve_channel(const Expanded *layer, const float *expanded, size_t channel, float *out, const Scratch *scratch) {
    const Geometry *g = &layer->geometry;
    ChannelNorm norm = running_norm(layer->behind, channel);
    for (size_t row = 0; row < g->height; row++) put_row(g, expanded + row * g->width, row, scratch->padded);
    convolve_and_normalize(g, scratch->padded, layer->weights + channel * g->kernel * g->kernel, &norm, out);
}

void expanded_forward(const Expanded *layer, float *out, float *means, float *memory, int num_threads) {
    const Pointwise *expansion = &layer->expansion;
    const Geometry *g = &layer->geometry;
    size_t channels = expansion->outputs, blocks = (channels + ROWS - 1) / ROWS, size = g->out_height * g->out_width;
    size_t tasks = TASKS * (size_t)num_threads, parts = expansion->batch < tasks && blocks > 1 ? tasks : 1;
    if (parts > blocks) parts = blocks;
#pragma omp parallel num_threads(num_threads)
    {
        Scratch scratch;
        cut(layer, memory + (size_t)omp_get_thread_num() * expanded_scratch(layer), &scratch);
        memset(scratch.padded, 0, padded_size(g) * sizeof(float));
#pragma omp for schedule(dynamic)
        for (size_t task = 0; task < expansion->batch * parts; task++) {
            size_t sample = task / parts, part = task % parts;
            const float *in = expansion->in + sample * expansion->inputs * expansion->plane;
            size_t first = part * blocks / parts, end = (part + 1) * blocks / parts;
            put_last(layer, in, first, end, &scratch);
            for (size_t block = first; block < end; block++) {
                expand(layer, in, block * ROWS, &scratch);
                for (size_t row = 0; row < ROWS && block * ROWS + row < channels; row++) {
                    size_t channel = block * ROWS + row, plane = sample * channels + channel;
                    convolve_channel(layer, scratch.expanded + row * whole_panels(expansion->plane), channel, out + plane * size, &scratch);
                    means[plane] = mean_of(out + plane * size, size);
                }
            }
        }
    }
}
