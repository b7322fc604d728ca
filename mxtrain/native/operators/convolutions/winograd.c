/* Winograd's algorithm for kernels of 3 x 3 with a stride of 1: a tile of 2 x 2 or 4 x 4 outputs takes 16 or 36 products of
   each input in the place of 36 or 144. Eight channels of a tile are transformed at a time, the products of each tap are
   one of tiles and weights, and a panel of outputs is transformed back while it is in the cache.

   The points of tiles of 4 are 0, 3/4, -3/4, 3/2 and -3/2, whose powers are exact: errors are half those of 0, 1, -1, 2
   and -2. A tile is computed by itself in one order, so its bits are those of any threads and samples around it. */

#include <stdint.h>

#include "convolutions/finished.h"
#include "sizes.h"
#include "threads.h"

#define POINT 0.75f /* the lesser one; the other is twice that */
#define NEAR (POINT * POINT)
#define FAR (4 * NEAR)
#define MOST_SIDE 6 /* of a transformed tile */
#define MOST_TAPS (MOST_SIDE * MOST_SIDE)
#define ALONE_BLOCKS 3            /* of ROWS tiles, that a thread takes by itself, where these */
#define ALONE_NUMBERS 196608      /* numbers at most are about in the cache of the second level, */
#define ALONE_WEIGHTS 2359296     /* and so many weights at most are read for them */
#define SHARED_NUMBERS 1572864    /* of tiles that threads share, which stay in the cache of the third level, */
#define FEWEST_SHARED_BLOCKS 4    /* of ROWS at least */

static size_t side_of(size_t tile) { return tile + 2; }

/* Write the sum of three rows, `step` rows apart, times three factors. */
static void add_three(const double *factors, double rows[][PANEL], size_t step, double *sums) {
    for (size_t lane = 0; lane < PANEL; lane++)
        sums[lane] = factors[0] * rows[0][lane] + factors[1] * rows[step][lane] + factors[2] * rows[2 * step][lane];
}

void transform_kernels(size_t tile, double kernels[][PANEL], double transformed[][PANEL]) {
    const double of_two[] = {1, 0, 0, 0.5, 0.5, 0.5, 0.5, -0.5, 0.5, 0, 0, 1};
    const double near = 1 / (2.0 * NEAR * (NEAR - FAR)), far = 1 / (2.0 * FAR * (FAR - NEAR));
    const double of_four[] = {1 / (double)(NEAR * FAR), 0, 0, near, near * POINT, near * NEAR, near, -near * POINT, near * NEAR,
                              far, far * 2 * POINT, far * FAR, far, -far * 2 * POINT, far * FAR, 0, 0, 1};
    const double *matrix = tile == 2 ? of_two : of_four;
    size_t side = side_of(tile);
    for (size_t row = 0; row < side; row++) {
        double sums[3][PANEL];
        for (size_t at = 0; at < 3; at++) add_three(matrix + row * 3, kernels + at, 3, sums[at]);
        for (size_t column = 0; column < side; column++)
            add_three(matrix + column * 3, sums, 1, transformed[row * side + column]);
    }
}

INLINE __m256 all(float number) { return _mm256_set1_ps(number); }

/* Transform a row or a column of a tile of the input, whose numbers lie `from_step` and `to_step` apart. */
INLINE void transform_line(const size_t tile, const __m256 *from, size_t from_step, __m256 *to, size_t to_step) {
    __m256 d0 = from[0], d1 = from[from_step], d2 = from[2 * from_step], d3 = from[3 * from_step];
    if (tile == 2) {
        to[0] = _mm256_sub_ps(d0, d2), to[to_step] = _mm256_add_ps(d1, d2);
        to[2 * to_step] = _mm256_sub_ps(d2, d1), to[3 * to_step] = _mm256_sub_ps(d3, d1);
        return;
    }
    __m256 d4 = from[4 * from_step], d5 = from[5 * from_step];
    __m256 even_near = _mm256_fnmadd_ps(all(FAR), d2, d4), odd_near = _mm256_fnmadd_ps(all(FAR), d1, d3);
    __m256 even_far = _mm256_fnmadd_ps(all(NEAR), d2, d4), odd_far = _mm256_fnmadd_ps(all(NEAR), d1, d3);
    to[0] = _mm256_fmadd_ps(all(NEAR * FAR), d0, _mm256_fnmadd_ps(all(NEAR + FAR), d2, d4));
    to[to_step] = _mm256_fmadd_ps(all(POINT), odd_near, even_near);
    to[2 * to_step] = _mm256_fnmadd_ps(all(POINT), odd_near, even_near);
    to[3 * to_step] = _mm256_fmadd_ps(all(2 * POINT), odd_far, even_far);
    to[4 * to_step] = _mm256_fnmadd_ps(all(2 * POINT), odd_far, even_far);
    to[5 * to_step] = _mm256_fmadd_ps(all(NEAR * FAR), d1, _mm256_fnmadd_ps(all(NEAR + FAR), d3, d5));
}

/* Transform a row or a column of a tile of products back: `tile` numbers of its side's. */
INLINE void transform_line_back(const size_t tile, const __m256 *from, __m256 *to, size_t to_step) {
    __m256 near = _mm256_add_ps(from[1], from[2]), near_odd = _mm256_sub_ps(from[1], from[2]);
    if (tile == 2) {
        to[0] = _mm256_add_ps(from[0], near), to[to_step] = _mm256_add_ps(near_odd, from[3]);
        return;
    }
    __m256 far = _mm256_add_ps(from[3], from[4]), far_odd = _mm256_sub_ps(from[3], from[4]);
    to[0] = _mm256_add_ps(from[0], _mm256_add_ps(near, far));
    to[to_step] = _mm256_fmadd_ps(all(POINT), near_odd, _mm256_mul_ps(all(2 * POINT), far_odd));
    to[2 * to_step] = _mm256_fmadd_ps(all(NEAR), near, _mm256_mul_ps(all(FAR), far));
    to[3 * to_step] = _mm256_fmadd_ps(all(NEAR * POINT), near_odd, _mm256_fmadd_ps(all(FAR * 2 * POINT), far_odd, from[5]));
}

/* Where a tile is. */
typedef struct {
    size_t sample, row, column;
} Corner;

static Corner corner_of(const Convolution *layer, size_t place) {
    size_t tile = layer->tile, down = (layer->height + tile - 1) / tile, across = (layer->width + tile - 1) / tile;
    return (Corner){place / across / down, place / across % down * tile, place % across * tile};
}

static size_t tiles_of(const Convolution *layer) {
    return layer->batch * ((layer->height + layer->tile - 1) / layer->tile) * ((layer->width + layer->tile - 1) / layer->tile);
}

/* Eight channels of a tile of the input; what is outside of the picture is 0. */
INLINE void load_tile(const size_t tile, const Convolution *layer, Corner corner, size_t channel, __m256 *numbers) {
    const size_t side = tile + 2;
    const float *sample = layer->in + corner.sample * layer->height * layer->width * layer->inputs + channel;
    size_t top = corner.row - 1, left = corner.column - 1; /* before 0 they are huge */
    if (corner.row && corner.column && top + side <= layer->height && left + side <= layer->width) {
        for (size_t row = 0; row < side; row++)
#pragma GCC unroll 6
            for (size_t column = 0; column < side; column++)
                numbers[row * side + column] =
                    _mm256_loadu_ps(sample + ((top + row) * layer->width + left + column) * layer->inputs);
        return;
    }
    for (size_t row = 0; row < side; row++)
        for (size_t column = 0; column < side; column++) {
            int is_inside = top + row < layer->height && left + column < layer->width;
            size_t at = ((top + row) * layer->width + left + column) * layer->inputs;
            numbers[row * side + column] = is_inside ? _mm256_loadu_ps(sample + at) : _mm256_setzero_ps();
        }
}

/* Transform `count` tiles from `first` on; a tap's numbers begin `step` behind those of the one before. */
INLINE void transform_tiles(const size_t tile, const Convolution *layer, size_t first, size_t count, float *tiles, size_t step) {
    const size_t side = tile + 2;
    for (size_t at = 0; at < count; at++) {
        Corner corner = corner_of(layer, first + at);
        for (size_t channel = 0; channel < layer->inputs; channel += LANES) {
            __m256 numbers[MOST_TAPS], columns[MOST_TAPS], row[MOST_SIDE];
            load_tile(tile, layer, corner, channel, numbers);
            for (size_t column = 0; column < side; column++)
                transform_line(tile, numbers + column, side, columns + column, side);
            float *to = tiles + at * layer->inputs + channel;
            for (size_t tap = 0; tap < side * side; tap += side) {
                transform_line(tile, columns + tap, 1, row, 1);
#pragma GCC unroll 6
                for (size_t each = 0; each < side; each++) _mm256_storeu_ps(to + (tap + each) * step, row[each]);
            }
        }
    }
}

/* Write a panel of outputs of these tiles; the products of a tap lie `step` behind those of the one before. */
INLINE void write_outputs(const size_t tile, const Activation activation, const Convolution *layer, size_t first, size_t count,
                          const float *products, size_t step, size_t panel, float *out) {
    const size_t side = tile + 2;
    const float *shifts = layer->weights + panel * panel_size(side * side, layer->inputs);
    for (size_t at = 0; at < 2 * count; at++) {
        Corner corner = corner_of(layer, first + at / 2);
        size_t half = at % 2 * LANES;
        size_t rows = least(tile, layer->height - corner.row), columns = least(tile, layer->width - corner.column);
        const float *from = products + at / 2 * PANEL + half;
        __m256 lines[MOST_TAPS], line[MOST_SIDE], shift = _mm256_loadu_ps(shifts + half);
        for (size_t column = 0; column < side; column++) {
#pragma GCC unroll 6
            for (size_t row = 0; row < side; row++) line[row] = _mm256_loadu_ps(from + (row * side + column) * step);
            transform_line_back(tile, line, lines + column, side);
        }
        for (size_t row = 0; row < rows; row++) {
            transform_line_back(tile, lines + row * side, line, 1);
            size_t pixel = (corner.sample * layer->height + corner.row + row) * layer->width + corner.column;
            for (size_t column = 0; column < columns; column++) {
                size_t place = (pixel + column) * layer->outputs + panel * PANEL + half;
                finish(activation, layer, _mm256_add_ps(line[column], shift), place, out);
            }
        }
    }
}

FMA static void transform(const Convolution *layer, size_t first, size_t count, float *tiles, size_t step) {
    if (layer->tile == 2)
        transform_tiles(2, layer, first, count, tiles, step);
    else
        transform_tiles(4, layer, first, count, tiles, step);
}

FMA static void transform_back(const Convolution *layer, size_t first, size_t count, const float *products, size_t step,
                               size_t panel, float *out) {
#define WRITE_OUTPUTS(activation, tile) write_outputs(tile, activation, layer, first, count, products, step, panel, out)
    if (layer->tile == 2) {
        FOR_ACTIVATIONS(layer->activation, WRITE_OUTPUTS, 2)
    } else {
        FOR_ACTIVATIONS(layer->activation, WRITE_OUTPUTS, 4)
    }
}

/* How tiles are computed: `most` at a time, by a thread alone, or transformed by all threads, which share the outputs. */
typedef struct {
    size_t taps, most;
    int is_shared;
} Plan;

static Plan plan_of(const Convolution *layer, int num_threads) {
    size_t taps = taps_of(layer->kernel, layer->tile), numbers = taps * ROWS * layer->inputs;
    int are_few = tiles_of(layer) < 2 * ROWS * (size_t)num_threads;
    if (!are_few && ALONE_BLOCKS * numbers <= ALONE_NUMBERS && taps * layer->inputs * layer->outputs <= ALONE_WEIGHTS)
        return (Plan){taps, ALONE_BLOCKS * ROWS, 0};
    size_t blocks = SHARED_NUMBERS / numbers;
    blocks = least(blocks < FEWEST_SHARED_BLOCKS ? FEWEST_SHARED_BLOCKS : blocks, (tiles_of(layer) + ROWS - 1) / ROWS);
    return (Plan){taps, blocks * ROWS, 1};
}

static size_t tiles_size(const Convolution *layer, Plan plan) { return plan.taps * plan.most * layer->inputs; }

static size_t products_size(Plan plan) { return plan.taps * plan.most * PANEL; }

size_t winograd_scratch(const Convolution *layer, int num_threads) {
    Plan plan = plan_of(layer, num_threads);
    size_t threads = (size_t)num_threads;
    return ((plan.is_shared ? 1 : threads) * tiles_size(layer, plan) + threads * products_size(plan)) * sizeof(float);
}

/* Write a panel of outputs of `count` transformed tiles from `first` on. */
static void multiply_tiles(const Convolution *layer, Plan plan, size_t first, size_t count, size_t panel, const float *tiles,
                           float *products, float *out) {
    const float *weights = layer->weights + panel * panel_size(plan.taps, layer->inputs) + PANEL;
    size_t step = plan.most * layer->inputs;
    for (size_t tap = 0; tap < plan.taps; tap++)
        multiply((Matrix){tiles + tap * step, layer->inputs, 1}, weights + tap * layer->inputs * PANEL, layer->inputs, 0, count,
                 layer->inputs, PANEL, products + tap * plan.most * PANEL, PANEL, WRITE);
    transform_back(layer, first, count, products, plan.most * PANEL, panel, out);
}

static void compute_alone(const Convolution *layer, Plan plan, float *out, float *scratch, int num_threads) {
    size_t tiles = tiles_of(layer), blocks = (tiles + ROWS - 1) / ROWS, threads = (size_t)num_threads;
    size_t groups = least(blocks, rounded_up((blocks + ALONE_BLOCKS - 1) / ALONE_BLOCKS, threads)); /* as many for each thread */
#pragma omp parallel num_threads(num_threads)
    {
        float *own = scratch + (size_t)omp_get_thread_num() * (tiles_size(layer, plan) + products_size(plan));
#pragma omp for schedule(dynamic)
        for (size_t group = 0; group < groups; group++) {
            size_t first = group * blocks / groups * ROWS, count = least((group + 1) * blocks / groups * ROWS, tiles) - first;
            transform(layer, first, count, own, plan.most * layer->inputs);
            for (size_t panel = 0; panel < layer->outputs / PANEL; panel++)
                multiply_tiles(layer, plan, first, count, panel, own, own + tiles_size(layer, plan), out);
        }
    }
}

static void compute_shared(const Convolution *layer, Plan plan, float *out, float *scratch, int num_threads) {
    size_t tiles = tiles_of(layer);
#pragma omp parallel num_threads(num_threads)
    {
        float *products = scratch + tiles_size(layer, plan) + (size_t)omp_get_thread_num() * products_size(plan);
        for (size_t first = 0; first < tiles; first += plan.most) {
            size_t count = least(plan.most, tiles - first);
#pragma omp for schedule(static)
            for (size_t at = 0; at < count; at++)
                transform(layer, first + at, 1, scratch + at * layer->inputs, plan.most * layer->inputs);
#pragma omp for schedule(dynamic)
            for (size_t panel = 0; panel < layer->outputs / PANEL; panel++)
                multiply_tiles(layer, plan, first, count, panel, scratch, products, out);
        }
    }
}

void winograd_forward(const Convolution *layer, float *out, void *scratch, int num_threads) {
    Plan plan = plan_of(layer, num_threads);
    (plan.is_shared ? compute_shared : compute_alone)(layer, plan, out, scratch, num_threads);
}
