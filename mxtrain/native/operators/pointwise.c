/* The places of all samples are the columns of a product with the weights, so that small planes share panels. A thread puts
   some panels of columns together and multiplies all weights by them; where there are more weights than columns, threads
   put all columns together and share the weights. A column has the same bits in any panel. */

#include "pointwise.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "activated.h"
#include "few_columns.h"
#include "product_block.h"
#include "sizes.h"
#include "threads.h"

#define AT_ONCE_PANELS 16    /* at most, */
#define AT_ONCE_NUMBERS 32768 /* and so many numbers, which stay in the cache of the second level */
#define AT_ONCE_BLOCKS 8      /* of rows, for few columns */
#define TASKS 4               /* of a thread */
#define LINE 16               /* numbers of a line of the cache */

void fold_norm(const FoldedNorm *norm, float *folded) {
    memset(folded, 0, folded_size(norm->outputs, norm->inputs) * sizeof *folded);
    for (size_t row = 0; row < norm->outputs; row++) {
        double scale = (norm->gamma ? norm->gamma[row] : 1) / sqrt((double)norm->variance[row] + norm->epsilon);
        float *to = folded + row / ROWS * ROWS * (norm->inputs + 1) + row % ROWS;
        to[0] = (float)(norm->beta[row] - norm->mean[row] * scale);
        for (size_t at = 0; at < norm->inputs; at++)
            to[(at + 1) * ROWS] = (float)(norm->weights[row * norm->inputs + at] * scale);
    }
}

static size_t panels_of(const Pointwise *layer) { return (layer->batch * layer->plane + PANEL - 1) / PANEL; }

/* Return whether threads share weights, as there are more of them than columns. */
static int has_shared_weights(const Pointwise *layer) { return layer->outputs > layer->batch * layer->plane; }

static size_t panels_at_once(const Pointwise *layer) {
    if (has_shared_weights(layer)) return panels_of(layer);
    size_t most = AT_ONCE_NUMBERS / (PANEL * layer->inputs);
    return most < 1 ? 1 : least(most, AT_ONCE_PANELS);
}

size_t pointwise_scratch(const Pointwise *layer) { return panels_at_once(layer) * layer->inputs * PANEL + LINE; }

/* Put `count` numbers of a plane, times a gate, into the columns from `column` on; an input's lie `PANEL` behind another's. */
FMA static void put_run(const float *from, size_t count, float gate, size_t column, size_t inputs, float *panels) {
    __m256 factor = _mm256_set1_ps(gate);
    while (count) {
        size_t inside = column % PANEL, some = least(count, PANEL - inside);
        float *to = panels + column / PANEL * inputs * PANEL + inside;
        if (some == PANEL) {
            _mm256_storeu_ps(to, _mm256_mul_ps(factor, _mm256_loadu_ps(from)));
            _mm256_storeu_ps(to + 8, _mm256_mul_ps(factor, _mm256_loadu_ps(from + 8)));
        } else {
            for (size_t at = 0; at < some; at++) to[at] = from[at] * gate;
        }
        from += some, column += some, count -= some;
    }
}

/* Put the places from `first` up to `end` together, and zeros behind them up to whole panels; a few behind whole panels
   with FEW numbers from an input to the next. */
static void put_together(const Pointwise *layer, size_t first, size_t end, float *panels) {
    for (size_t place = first; place < end;) {
        size_t sample = place / layer->plane, at = place % layer->plane, count = least(end - place, layer->plane - at);
        for (size_t input = 0; input < layer->inputs; input++) {
            size_t channel = sample * layer->inputs + input;
            put_run(layer->in + channel * layer->plane + at, count, layer->gates ? layer->gates[channel] : 1, place - first,
                    layer->inputs, panels + input * PANEL);
        }
        place += count;
    }
    size_t used = (end - first) % PANEL;
    float *last = panels + (end - first) / PANEL * layer->inputs * PANEL;
    for (size_t input = 0; used && input < layer->inputs; input++) {
        if (used > FEW)
            memset(last + input * PANEL + used, 0, (PANEL - used) * sizeof *last);
        else
            memmove(last + input * FEW, last + input * PANEL, used * sizeof *last);
    }
}

/* Write the numbers of a row of a block whose places are of several samples, or fewer than there are columns. */
static void put_apart(const Pointwise *layer, const float *numbers, size_t row, size_t place, size_t count, float *out) {
    while (count) {
        size_t at = place % layer->plane, some = least(count, layer->plane - at);
        size_t begin = (place / layer->plane * layer->outputs + row) * layer->plane + at;
        for (size_t each = 0; each < some; each++)
            out[begin + each] = layer->added ? numbers[each] + layer->added[begin + each] : numbers[each];
        numbers += some, place += some, count -= some;
    }
}

/* A block: `count` outputs from `row` on, at `places` places from `place` on, 16 but for the last. */
INLINE void multiply_block(const size_t count, const Activation activation, const Pointwise *layer, const float *weights,
                           const float *panel, size_t row, size_t place, size_t places, float *out) {
    __m256 sums[ROWS][2];
#pragma GCC unroll 6
    for (size_t each = 0; each < count; each++) sums[each][0] = sums[each][1] = _mm256_broadcast_ss(weights + each);
    add_products(count, (Matrix){weights + ROWS, 1, ROWS}, panel, PANEL, layer->inputs, sums);
    size_t at = place % layer->plane, begin = (place / layer->plane * layer->outputs + row) * layer->plane + at;
    int is_whole = places == PANEL && at + PANEL <= layer->plane;
#pragma GCC unroll 6
    for (size_t each = 0; each < count; each++, begin += layer->plane) {
        __m256 low = activated(activation, sums[each][0]), high = activated(activation, sums[each][1]);
        if (!is_whole) {
            float all[PANEL];
            _mm256_storeu_ps(all, low), _mm256_storeu_ps(all + 8, high);
            put_apart(layer, all, row + each, place, places, out);
            continue;
        }
        if (layer->added) {
            low = _mm256_add_ps(low, _mm256_loadu_ps(layer->added + begin));
            high = _mm256_add_ps(high, _mm256_loadu_ps(layer->added + begin + 8));
        }
        _mm256_storeu_ps(out + begin, low), _mm256_storeu_ps(out + begin + 8, high);
    }
}

/* All outputs from row `first` up to `last` at the places that were put together. */
INLINE void multiply_all(const Activation activation, const Pointwise *layer, const float *panels, size_t place, size_t end,
                         size_t first, size_t last, float *out) {
    size_t depth = layer->inputs;
    for (size_t row = first; row < last; row += ROWS) {
        const float *weights = layer->weights + row * (depth + 1);
        for (size_t from = place; from < end; from += PANEL) {
            const float *panel = panels + (from - place) * depth;
            size_t places = least(end - from, PANEL);
            switch (last - row) {
            case 1: multiply_block(1, activation, layer, weights, panel, row, from, places, out); break;
            case 2: multiply_block(2, activation, layer, weights, panel, row, from, places, out); break;
            case 3: multiply_block(3, activation, layer, weights, panel, row, from, places, out); break;
            case 4: multiply_block(4, activation, layer, weights, panel, row, from, places, out); break;
            case 5: multiply_block(5, activation, layer, weights, panel, row, from, places, out); break;
            default: multiply_block(6, activation, layer, weights, panel, row, from, places, out);
            }
        }
    }
}

/* The same for the few places from `place` on, and rows of AT_ONCE_BLOCKS blocks at most. */
static void multiply_last(const Pointwise *layer, const float *columns, size_t place, size_t count, size_t first, size_t last,
                          float *out) {
    float found[AT_ONCE_BLOCKS * ROWS * FEW];
    multiply_few(layer->activation, layer->weights + first * (layer->inputs + 1), layer->inputs, (last - first + ROWS - 1) / ROWS,
                 columns, FEW, count, found);
    for (size_t row = first; row < last; row++) put_apart(layer, found + (row - first) * FEW, row, place, count, out);
}

FMA static void multiply_panels_at_once(const Pointwise *layer, const float *panels, size_t place, size_t end, size_t first,
                                        size_t last, float *out) {
    size_t few = few_behind(end - place), whole = end - few;
    for (size_t row = first, next; row < last; row = next) { /* some weights, which stay in the cache for the last places */
        next = least(row + AT_ONCE_BLOCKS * ROWS, last);
        FOR_ACTIVATIONS(layer->activation, multiply_all, layer, panels, place, whole, row, next, out)
        if (few) multiply_last(layer, panels + (whole - place) * layer->inputs, whole, few, row, next, out);
    }
}

static float *on_a_line(float *memory) {
    uintptr_t line = LINE * sizeof(float);
    return (float *)(((uintptr_t)memory + line - 1) / line * line);
}

/* A thread has all columns, which threads put together, and some of the weights. */
static void multiply_by_shared_weights(const Pointwise *layer, float *out, float *scratch, int num_threads) {
    size_t places = layer->batch * layer->plane, panels = panels_of(layer), blocks = (layer->outputs + ROWS - 1) / ROWS;
    size_t parts = least(blocks, TASKS * (size_t)num_threads);
    float *columns = on_a_line(scratch);
#pragma omp parallel num_threads(num_threads)
    {
#pragma omp for schedule(static)
        for (size_t panel = 0; panel < panels; panel++)
            put_together(layer, panel * PANEL, least((panel + 1) * PANEL, places), columns + panel * PANEL * layer->inputs);
#pragma omp for schedule(dynamic)
        for (size_t part = 0; part < parts; part++) {
            size_t first = part * blocks / parts * ROWS, last = least((part + 1) * blocks / parts * ROWS, layer->outputs);
            multiply_panels_at_once(layer, columns, 0, places, first, last, out);
        }
    }
}

/* A thread has some of the columns, and all weights. */
static void multiply_shared_columns(const Pointwise *layer, float *out, float *scratch, int num_threads) {
    size_t places = layer->batch * layer->plane, panels = panels_of(layer), most = panels_at_once(layer), threads = (size_t)num_threads;
    size_t groups = least(panels, ((panels + most - 1) / most + threads - 1) / threads * threads); /* as many for each thread */
#pragma omp parallel num_threads(num_threads)
    {
        float *columns = on_a_line(scratch + (size_t)omp_get_thread_num() * pointwise_scratch(layer));
#pragma omp for schedule(dynamic)
        for (size_t group = 0; group < groups; group++) {
            size_t place = group * panels / groups * PANEL, end = least((group + 1) * panels / groups * PANEL, places);
            put_together(layer, place, end, columns);
            multiply_panels_at_once(layer, columns, place, end, 0, layer->outputs, out);
        }
    }
}

void pointwise_forward(const Pointwise *layer, float *out, float *scratch, int num_threads) {
    (has_shared_weights(layer) ? multiply_by_shared_weights : multiply_shared_columns)(layer, out, scratch, num_threads);
}
