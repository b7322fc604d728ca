/* Wide channels, and a first convolution's, are never in memory. A panel of them is expanded row by row into lines with padding around them, and convolved
   while it is in the cache. Of large pictures a few rows at a time go on to the last convolution; threads share
   pictures, or their rows, of which some that meet are expanded twice. Of small ones, and where gates need means, all rows do:
   threads take pictures, or share the panels of one and then the places or outputs of its last convolution. */

#include "mobile/block.h"

#include <string.h>

#include "convolutions/convolution.h"
#include "mobile/depthwise.h"
#include "convolutions/places.h"
#include "channels/plane.h"
#include "sizes.h"
#include "threads.h"

#define WHOLE_NUMBERS 131072  /* of a picture's wide channels that go on at once, about what the cache of the second level has */
#define BAND_NUMBERS 16384    /* the same, of rows of larger ones */
#define FEW_WEIGHTS 65536     /* are read again for each few places, whose outputs are written side by side */
#define TOGETHER (2 * ROWS)   /* such places */
#define TASKS 2               /* of a thread, of places that it shares */
#define LINE 16               /* numbers of a line of the cache */
#define NUMBERS_OF_POINTER (sizeof(void *) / sizeof(float))

/* What a thread has: pointers of places, lines of pictures and the taps that read them, a line of zeros, and lines of a panel,
   or of all. */
typedef struct {
    void **pointers;
    const float **taps;
    float *colours, *zeros, *lines, *wide;
} Own;

static size_t in_panel(size_t channels, size_t panel) { return least(PANEL, channels - panel * PANEL); }
static size_t line_size(const Block *block) { return (block->width + 2 * block->pad) * PANEL; }
static size_t wide_step(const Block *block) { return rounded_up(block->wide, LANES); }
static size_t rows_of(const Block *block) { return out_side_of(block, block->height); }
static size_t width_of(const Block *block) { return out_side_of(block, block->width); }

static int goes_on_whole(const Block *block) {
    return block->gate || rows_of(block) * width_of(block) * block->wide <= WHOLE_NUMBERS;
}

/* How many rows go on at a time, and how many lines of a panel they are made of. */
static size_t rows_at_once(const Block *block) {
    size_t most = BAND_NUMBERS / (width_of(block) * block->wide);
    return goes_on_whole(block) ? rows_of(block) : least(most ? most : 1, rows_of(block));
}
static size_t num_lines(const Block *block) {
    return goes_on_whole(block) ? block->height : (rows_at_once(block) - 1) * block->stride + block->kernel;
}

/* How many panels lie side by side: one after the other is in the same lines where all rows go on at once. */
static size_t panels_at_once(const Block *block) { return goes_on_whole(block) ? 1 : num_panels(block->wide); }

/* The rows of the kernel of a convolution of pictures, each of a colour. */
static size_t num_taps(const Convolution *first) { return first->inputs * first->kernel; }

static size_t own_size(const Block *block, Own *own, float *memory) {
    size_t places = rows_at_once(block) * width_of(block), expanded = num_lines(block) * block->width;
    size_t pointers = 3 * (places > expanded ? places : expanded), taps = block->first ? expanded * num_taps(block->first) : 0;
    size_t colours = block->first ? lines_size(block->first, num_lines(block)) : 0;
    size_t sizes[] = {rounded_up(pointers * NUMBERS_OF_POINTER, LINE),
                      rounded_up(taps * NUMBERS_OF_POINTER, LINE),
                      rounded_up(colours, LINE),
                      line_size(block),
                      panels_at_once(block) * num_lines(block) * line_size(block),
                      goes_on_whole(block) ? 0 : rounded_up(places * wide_step(block), LINE)};
    float *first, *second;
    float **arrays[] = {&first, &second, &own->colours, &own->zeros, &own->lines, &own->wide};
    size_t size = cut_memory(memory, sizes, arrays, sizeof sizes / sizeof *sizes);
    own->pointers = (void **)(void *)first, own->taps = (const float **)(void *)second;
    return size;
}

/* What threads share that compute a picture together: all its wide channels, their means, the hidden numbers and gates. */
typedef struct {
    float *wide, *means, *hidden, *gates;
} Shared;

static size_t shared_size(const Block *block, Shared *shared, float *memory) {
    size_t step = rounded_up(block->wide, LINE), hidden = block->gate ? rounded_up(block->gate->hidden, LINE) : 0;
    size_t wide = goes_on_whole(block) ? rounded_up(rows_of(block) * width_of(block) * wide_step(block), LINE) : 0;
    size_t sizes[] = {wide, step, hidden, step};
    float **arrays[] = {&shared->wide, &shared->means, &shared->hidden, &shared->gates};
    return cut_memory(memory, sizes, arrays, sizeof sizes / sizeof *sizes);
}

static size_t team_size(const Block *block, size_t threads) {
    Own own;
    Shared shared;
    return shared_size(block, &shared, NULL) + threads * own_size(block, &own, NULL);
}

size_t block_scratch(const Block *block, int num_threads) {
    return (size_t)num_threads * team_size(block, 1) + LINE; /* of which a team takes as much, or less */
}

/* Cut a thread's own memory, and write what is the same for all rows: zeros around its lines, and pointers at pictures'. */
static Own own_memory(const Block *block, float *memory) {
    Own own;
    own_size(block, &own, memory);
    memset(own.zeros, 0, line_size(block) * sizeof *own.zeros);
    if (block->first) point_at_lines(block->first, num_lines(block), own.colours, own.taps);
    for (size_t line = 0; line < panels_at_once(block) * num_lines(block); line++) {
        float *begin = own.lines + line * line_size(block), *end = begin + (block->pad + block->width) * PANEL;
        memset(begin, 0, block->pad * PANEL * sizeof *begin);
        memset(end, 0, block->pad * PANEL * sizeof *end);
    }
    return own;
}

/* Return the places of rows of a picture, and where the first panel of what they are expanded to goes. */
static Places expanded_places(const Block *block, size_t sample, size_t first, size_t end, const Own *own) {
    size_t width = block->width, count = 0, lines = num_lines(block);
    Places places = {(end - first) * width, 1, block->inputs, (const float **)own->pointers, NULL, NULL};
    places.to = (float **)own->pointers + places.count;
    if (block->first) {
        if (places.count) put_lines(block->first, sample, first, end - first, own->colours);
        places.taps = num_taps(block->first), places.depth = block->first->kernel, places.rows = own->taps;
    }
    for (size_t row = first; row < end; row++)
        for (size_t column = 0; column < width; column++, count++) {
            if (!block->first) places.rows[count] = block->in + ((sample * block->height + row) * width + column) * block->inputs;
            places.to[count] = own->lines + row % lines * line_size(block) + (block->pad + column) * PANEL;
        }
    return places;
}

/* Write a panel of wide channels of these places, `behind` numbers behind where the first one goes. */
static void expand(const Block *block, Places places, size_t panel, size_t behind) {
    size_t channels = in_panel(block->wide, panel);
    if (block->expansion) {
        const float *weights = block->expansion + panel * panel_size(places.taps, places.depth);
        multiply_places(block->expanded, places, weights, behind, channels > LANES ? PANEL : LANES);
        return;
    }
    for (size_t at = 0; at < places.count; at++)
        if (channels == PANEL) /* a size that the compiler knows */
            memcpy(places.to[at] + behind, places.rows[at] + panel * PANEL, PANEL * sizeof(float));
        else
            memcpy(places.to[at] + behind, places.rows[at] + panel * PANEL, channels * sizeof(float));
}

/* Convolve rows of a panel whose lines are there. */
static void convolve_panel(const Block *block, size_t panel, size_t first, size_t end, const float *lines,
                           const float *zeros, float *wide) {
    const float *weights = block->depthwise + panel * panel_size(block->kernel * block->kernel, 1);
    size_t width = width_of(block), step = wide_step(block);
    for (size_t row = first; row < end; row++, wide += width * step) {
        const float *rows[MOST_TAPS_DOWN];
        for (size_t down = 0; down < block->kernel; down++) {
            size_t from = row * block->stride + down - block->pad; /* before 0 it is huge */
            rows[down] = from < block->height ? lines + from % num_lines(block) * line_size(block) : zeros;
        }
        convolve_rows(block->kernel, block->stride, block->convolved, rows, weights, width, in_panel(block->wide, panel),
                      wide + panel * PANEL, step);
    }
}

/* Write outputs, panels from `panel` on, of places from `first` on, whose wide channels these are. */
static void project(const Block *block, size_t first, size_t count, size_t panel, size_t end, const float *wide, float *out,
                    const Own *own) {
    Places places = {count, 1, block->wide, (const float **)own->pointers, NULL, NULL};
    places.to = (float **)own->pointers + count;
    if (block->is_residual) places.added = (const float **)own->pointers + 2 * count;
    for (size_t at = 0; at < count; at++) {
        places.rows[at] = wide + at * wide_step(block);
        places.to[at] = out + (first + at) * block->outputs;
        if (block->is_residual) places.added[at] = block->in + (first + at) * block->outputs;
    }
    size_t together = block->wide * block->outputs <= FEW_WEIGHTS ? TOGETHER : count;
    for (size_t at = 0; at < count; at += together) {
        Places few = places_from(places, at, least(together, count - at));
        for (size_t each = panel; each < end; each++)
            multiply_places(block->projected, few, block->projection + each * panel_size(1, block->wide), each * PANEL,
                            in_panel(block->outputs, each));
    }
}

static void compute_bands(const Block *block, float *out, float *scratch, int num_threads) {
    size_t rows = rows_of(block), width = width_of(block), at_once = rows_at_once(block), threads = (size_t)num_threads;
    size_t bands = block->batch < 2 * threads ? least(threads, rows) : 1, panels = num_panels(block->wide);
#pragma omp parallel num_threads(num_threads)
    {
        Own own = own_memory(block, scratch + (size_t)omp_get_thread_num() * team_size(block, 1));
#pragma omp for schedule(dynamic)
        for (size_t task = 0; task < block->batch * bands; task++) {
            size_t sample = task / bands, first = task % bands * rows / bands, end = (task % bands + 1) * rows / bands;
            size_t done = first * block->stride < block->pad ? 0 : least(first * block->stride - block->pad, block->height);
            for (size_t row = first; row < end; row += at_once) {
                size_t last = least(row + at_once, end);
                size_t until = least((last - 1) * block->stride + block->kernel - block->pad, block->height);
                Places places = expanded_places(block, sample, done, until > done ? until : done, &own);
                for (size_t panel = 0; panel < panels; panel++) {
                    size_t behind = panel * num_lines(block) * line_size(block);
                    expand(block, places, panel, behind);
                    convolve_panel(block, panel, row, last, own.lines + behind, own.zeros, own.wide);
                }
                done += places.count / block->width;
                size_t place = (sample * rows + row) * width, count = (last - row) * width;
                project(block, place, count, 0, num_panels(block->outputs), own.wide, out, &own);
            }
        }
    }
}

/* Multiply all wide channels by the gates that their means make. */
static void close_gates(const Block *block, const Shared *shared) {
    size_t places = rows_of(block) * width_of(block);
#pragma omp for schedule(static)
    for (size_t at = 0; at < block->gate->hidden; at++) shared->hidden[at] = hidden_number(block->gate, shared->means, at);
#pragma omp for schedule(static)
    for (size_t channel = 0; channel < block->wide; channel++)
        shared->gates[channel] = gate_of(block->gate, shared->hidden, channel);
#pragma omp for schedule(static)
    for (size_t place = 0; place < places; place++)
        multiply_by_gates(shared->wide + place * wide_step(block), shared->gates, block->wide);
}

/* Compute a picture by all threads of a team. */
static void compute_whole(const Block *block, size_t sample, float *out, float *memory) {
    Shared shared;
    size_t taken = shared_size(block, &shared, memory);
    Own own = own_memory(block, memory + taken + (size_t)omp_get_thread_num() * own_size(block, &own, NULL));
    size_t rows = rows_of(block), places = rows * width_of(block), step = wide_step(block);
    size_t panels = num_panels(block->outputs);
    Places expanded = expanded_places(block, sample, 0, block->height, &own);
#pragma omp for schedule(guided) /* one panel after the other, as the next one is asked for */
    for (size_t panel = 0; panel < num_panels(block->wide); panel++) {
        expand(block, expanded, panel, 0);
        convolve_panel(block, panel, 0, rows, own.lines, own.zeros, shared.wide);
        if (block->gate)
            mean_channels(shared.wide + panel * PANEL, places, step, in_panel(block->wide, panel), shared.means + panel * PANEL);
    }
    if (block->gate) close_gates(block, &shared);
    size_t threads = (size_t)omp_get_num_threads(), groups = places < block->outputs ? panels : 1; /* the more there is of */
    size_t chunks = threads > 1 && groups == 1 ? least(TASKS * threads, places) : 1;
#pragma omp for schedule(guided)
    for (size_t task = 0; task < groups * chunks; task++) {
        size_t group = task / chunks, first = task % chunks * places / chunks, end = (task % chunks + 1) * places / chunks;
        project(block, sample * places + first, end - first, group * panels / groups, (group + 1) * panels / groups,
                shared.wide + first * step, out, &own);
    }
}

void block_forward(const Block *block, float *out, float *scratch, int num_threads) {
    if (!goes_on_whole(block)) {
        compute_bands(block, out, scratch, num_threads);
        return;
    }
    if (block->batch < (size_t)num_threads) {
#pragma omp parallel num_threads(num_threads)
        for (size_t sample = 0; sample < block->batch; sample++) compute_whole(block, sample, out, scratch);
        return;
    }
#pragma omp parallel for num_threads(num_threads) schedule(dynamic)
    for (size_t sample = 0; sample < block->batch; sample++) {
        float *memory = scratch + (size_t)omp_get_thread_num() * team_size(block, 1);
#pragma omp parallel num_threads(1)
        compute_whole(block, sample, out, memory);
    }
}
