/* A thread has hidden units, sixteen at a time, with all four of their gates: it adds up their gates and moves their
   states, and waits for the others once a step. What gates take of a layer's inputs is a product of all rows of some
   steps, small enough for the cache. */

#include "tokens/lstm.h"

#include <string.h>

#include "products/product.h"
#include "sizes.h"
#include "threads.h"
#include "vectors.h"

#define GATES 4
#define GROUP (GATES * PANEL) /* columns of sixteen units: those of each gate side by side */
#define DEPTH 256             /* of a block of a product */
#define MOST_ROWS 192         /* of steps at a time, unless one has more */

static size_t num_groups(const Lstm *lstm) { return (lstm->hidden + PANEL - 1) / PANEL; }

static size_t inputs_of(const Lstm *lstm, size_t layer) { return layer ? lstm->hidden : lstm->inputs; }

/* A layer's weights: biases, and panels of those of its inputs and of its own states. */
typedef struct {
    size_t inputs;
    const float *biases, *of_inputs, *of_states;
} Layer;

static size_t layer_size(const Lstm *lstm, size_t layer) {
    return (1 + inputs_of(lstm, layer) + lstm->hidden) * num_groups(lstm) * GROUP;
}

static Layer layer_at(const Lstm *lstm, size_t number, const float *weights) {
    size_t columns = num_groups(lstm) * GROUP, inputs = inputs_of(lstm, number);
    for (size_t before = 0; before < number; before++) weights += layer_size(lstm, before);
    Layer layer = {inputs, weights, weights + columns, weights + (1 + inputs) * columns};
    return layer;
}

size_t lstm_weights_size(const Lstm *lstm) {
    size_t size = 0;
    for (size_t layer = 0; layer < lstm->layers; layer++) size += layer_size(lstm, layer);
    return size;
}

size_t lstm_parameters_size(const Lstm *lstm) {
    size_t size = 0;
    for (size_t layer = 0; layer < lstm->layers; layer++)
        size += GATES * lstm->hidden * (inputs_of(lstm, layer) + lstm->hidden + 2);
    return size;
}

/* Put a matrix (gates x hidden, depth) into panels, each of one gate of sixteen units. */
static void put_gates_into_panels(const Lstm *lstm, const float *from, size_t depth, float *panels) {
    for (size_t unit = 0; unit < lstm->hidden; unit += PANEL)
        for (size_t gate = 0; gate < GATES; gate++, panels += depth * PANEL) {
            Matrix of_gate = {from + (gate * lstm->hidden + unit) * depth, 1, depth};
            put_into_panels(of_gate, depth, least(lstm->hidden - unit, PANEL), panels);
        }
}

void lstm_weights(const Lstm *lstm, const float *parameters, float *weights) {
    size_t hidden = lstm->hidden, columns = num_groups(lstm) * GROUP;
    const float *biases = parameters + lstm_parameters_size(lstm) - lstm->layers * 2 * GATES * hidden;
    for (size_t layer = 0; layer < lstm->layers; layer++, biases += 2 * GATES * hidden) {
        size_t inputs = inputs_of(lstm, layer);
        for (size_t at = 0; at < columns; at++) {
            size_t unit = at / GROUP * PANEL + at % PANEL, place = at % GROUP / PANEL * hidden + unit;
            weights[at] = unit < hidden ? biases[place] + biases[GATES * hidden + place] : 0;
        }
        put_gates_into_panels(lstm, parameters, inputs, weights + columns);
        put_gates_into_panels(lstm, parameters + GATES * hidden * inputs, hidden, weights + (1 + inputs) * columns);
        parameters += GATES * hidden * (inputs + hidden), weights += layer_size(lstm, layer);
    }
}

/* How many steps' gates are computed at a time. */
static size_t steps_at_once(const Lstm *lstm) {
    size_t steps = MOST_ROWS / lstm->batch;
    return steps ? least(steps, lstm->steps) : 1;
}

/* Scratch memory, cut into arrays: what one layer passes to the next, gates, states, what came out before and comes out now
   in panels of rows, and for each thread a block of rows. */
typedef struct {
    float *passed, *gates, *states, *before, *now, *blocks;
    size_t block;
} Scratch;

static size_t cut(const Lstm *lstm, int num_threads, float *memory, Scratch *scratch) {
    size_t rows = steps_at_once(lstm) * lstm->batch, of_outputs = rounded_up(lstm->batch, ROWS) * lstm->hidden;
    scratch->block = rounded_up(rows, ROWS) * DEPTH;
    size_t sizes[] = {lstm->layers > 1 ? lstm->steps * lstm->batch * lstm->hidden : 0,
                      rows * num_groups(lstm) * GROUP,
                      lstm->batch * num_groups(lstm) * PANEL,
                      of_outputs,
                      of_outputs,
                      scratch->block * (size_t)num_threads};
    float **arrays[] = {&scratch->passed, &scratch->gates, &scratch->states,
                        &scratch->before, &scratch->now,   &scratch->blocks};
    return cut_memory(memory, sizes, arrays, sizeof sizes / sizeof *sizes);
}

size_t lstm_scratch(const Lstm *lstm, int num_threads) {
    Scratch scratch;
    return cut(lstm, num_threads, NULL, &scratch);
}

INLINE __m256 sigmoid(__m256 x) {
    __m256 minus = _mm256_set1_ps(-0.0f), one = _mm256_set1_ps(1);
    __m256 power = exponential_or_nan(_mm256_or_ps(x, minus)), share = _mm256_div_ps(one, _mm256_add_ps(one, power));
    return _mm256_blendv_ps(share, _mm256_mul_ps(power, share), x); /* that of the number's sign */
}

/* By a power, which leaves little of a small number's last bits: of those by a polynomial. */
INLINE __m256 tangent(__m256 x) {
    __m256 minus = _mm256_set1_ps(-0.0f), one = _mm256_set1_ps(1);
    __m256 size = _mm256_or_ps(x, minus), power = exponential_or_nan(_mm256_add_ps(size, size));
    __m256 found = _mm256_div_ps(_mm256_sub_ps(one, power), _mm256_add_ps(one, power));
    __m256 square = _mm256_mul_ps(x, x), small = _mm256_set1_ps(62 / 2835.0f);
    small = _mm256_fmadd_ps(small, square, _mm256_set1_ps(-17 / 315.0f));
    small = _mm256_fmadd_ps(small, square, _mm256_set1_ps(2 / 15.0f));
    small = _mm256_fmadd_ps(small, square, _mm256_set1_ps(-1 / 3.0f));
    small = _mm256_fmadd_ps(_mm256_mul_ps(small, square), x, x);
    __m256 is_small = _mm256_cmp_ps(square, _mm256_set1_ps(1 / 16.0f), _CMP_LT_OQ);
    return _mm256_blendv_ps(_mm256_or_ps(found, _mm256_and_ps(x, minus)), small, is_small);
}

/* Move the states of eight units by their gates; returns what comes out. */
INLINE __m256 move(const float *gates, float *states, int is_first) {
    __m256 enters = sigmoid(_mm256_loadu_ps(gates)), stays = sigmoid(_mm256_loadu_ps(gates + PANEL));
    __m256 more = _mm256_mul_ps(enters, tangent(_mm256_loadu_ps(gates + 2 * PANEL)));
    __m256 state = is_first ? more : _mm256_fmadd_ps(stays, _mm256_loadu_ps(states), more);
    _mm256_storeu_ps(states, state);
    return _mm256_mul_ps(sigmoid(_mm256_loadu_ps(gates + 3 * PANEL)), tangent(state));
}

/* Move the states of the units of a group for all samples, and write what comes out in its order and into panels of rows. */
FMA static void move_group(const Lstm *lstm, const Scratch *scratch, size_t group, const float *gates, float *out,
                           int is_first) {
    size_t hidden = lstm->hidden, groups = num_groups(lstm), unit = group * PANEL, count = least(hidden - unit, PANEL);
    for (size_t panel = 0; panel < row_panels(lstm->batch); panel++) {
        float *in_panel = scratch->now + (panel * hidden + unit) * ROWS;
        size_t sample = first_of_panel(lstm->batch, panel), end = first_of_panel(lstm->batch, panel + 1);
        for (; sample < end; sample++, in_panel++) {
            const float *of_sample = gates + (sample * groups + group) * GROUP;
            float *states = scratch->states + sample * groups * PANEL + unit, all[PANEL];
            _mm256_storeu_ps(all, move(of_sample, states, is_first));
            _mm256_storeu_ps(all + 8, move(of_sample + 8, states + 8, is_first));
            memcpy(out + sample * hidden + unit, all, count * sizeof *out);
            for (size_t at = 0; at < count; at++) in_panel[at * ROWS] = all[at];
        }
    }
}

/* Write what the gates of groups take of the inputs of so many rows, and their biases. */
static void take_inputs(const Lstm *lstm, const Layer *layer, const float *in, size_t rows, size_t group, size_t end,
                        float *gates, float *block) {
    size_t stride = num_groups(lstm) * GROUP, columns = (end - group) * GROUP;
    const float *panels = layer->of_inputs + group * GROUP * layer->inputs;
    for (size_t row = 0; row < rows; row++)
        memcpy(gates + row * stride + group * GROUP, layer->biases + group * GROUP, columns * sizeof *gates);
    for (size_t from = 0; from < layer->inputs; from += DEPTH) {
        size_t deep = least(layer->inputs - from, DEPTH);
        Matrix part = {in + from, layer->inputs, 1};
        put_rows_into_panels(part, rows, deep, block);
        multiply_panels(block, panels, layer->inputs, from, rows, deep, columns, gates + group * GROUP, stride, ADD);
    }
}

/* A thread's groups of units of all steps. */
static void compute_groups(const Lstm *lstm, const Layer *layer, const float *in, float *out, Scratch scratch,
                           size_t group, size_t end, float *block) {
    size_t batch = lstm->batch, hidden = lstm->hidden, stride = num_groups(lstm) * GROUP, at_once = steps_at_once(lstm);
    for (size_t step = 0; step < lstm->steps; step++) {
        if (step % at_once == 0)
            take_inputs(lstm, layer, in + step * batch * layer->inputs, least(lstm->steps - step, at_once) * batch, group,
                        end, scratch.gates, block);
        float *gates = scratch.gates + step % at_once * batch * stride;
        if (step)
            multiply_panels(scratch.before, layer->of_states + group * GROUP * hidden, hidden, 0, batch, hidden,
                            (end - group) * GROUP, gates + group * GROUP, stride, ADD);
        for (size_t each = group; each < end; each++)
            move_group(lstm, &scratch, each, gates, out + step * batch * hidden, !step);
        float *free_now = scratch.before;
        scratch.before = scratch.now, scratch.now = free_now;
#pragma omp barrier
    }
}

static void compute_layer(const Lstm *lstm, const Layer *layer, const float *in, float *out, Scratch scratch,
                          int num_threads) {
#pragma omp parallel num_threads(num_threads)
    {
        size_t thread = (size_t)omp_get_thread_num(), count = (size_t)omp_get_num_threads(), groups = num_groups(lstm);
        compute_groups(lstm, layer, in, out, scratch, groups * thread / count, groups * (thread + 1) / count,
                       scratch.blocks + thread * scratch.block);
    }
}

void lstm_forward(const Lstm *lstm, const float *data, const float *weights, float *out, float *scratch, int num_threads) {
    Scratch arrays;
    cut(lstm, num_threads, scratch, &arrays);
    for (size_t number = 0; number < lstm->layers; number++) {
        Layer layer = layer_at(lstm, number, weights);
        /* Layers write into both arrays in turn, the last one into that for what comes out. */
        float *to = (lstm->layers - number) % 2 ? out : arrays.passed;
        compute_layer(lstm, &layer, number ? (to == out ? arrays.passed : out) : data, to, arrays, num_threads);
    }
}
