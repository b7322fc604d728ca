/* Random updates and squares of arrays as long as they have to be and no longer, compared with loops in float64; built
   with sanitizers, which end it where memory is misused. */

#include "weights/update.h"
#include "drawn.h"
#include "weights/squares.h"

static float *numbers(size_t count) { return drawn_numbers(count, 40, 10, -2); }

static void try_squares(const float *values, size_t count) {
    size_t blocks = (count + SQUARE_BLOCK - 1) / SQUARE_BLOCK;
    float *maxima = malloc(blocks * sizeof *maxima);
    double expected = 0;
    for (size_t at = 0; at < count; at++) expected += (double)values[at] * values[at];
    check_within(square(values, count, maxima), expected, 1e-6 * (1 + expected), "another square");
    for (size_t block = 0; block < blocks; block++) {
        float most = 0;
        for (size_t at = block * SQUARE_BLOCK; at < count && at < (block + 1) * SQUARE_BLOCK; at++)
            most = fmaxf(most, fabsf(values[at]));
        check_within(maxima[block], most, 1e-30, "another maximum");
    }
    free(maxima);
}

/* Return what a weight becomes. */
static double moved(const Update *rule, double weight, double gradient, double first, double second) {
    double slope = gradient * rule->rescale, clip = rule->clip < 0 ? INFINITY : rule->clip;
    if (rule->rule != ADAM) {
        slope = fmin(fmax(slope, -clip), clip) + rule->decay * weight;
        return weight + (rule->rule == SGD ? 0 : rule->beta1 * first) - rule->rate * slope;
    }
    weight *= rule->shrink;
    slope = fmin(fmax(slope + rule->decay * weight, -clip), clip);
    first = rule->beta1 * first + (1 - (double)rule->beta1) * slope;
    second = rule->beta2 * second + (1 - (double)rule->beta2) * slope * slope;
    return weight - rule->rate * first / (sqrt(second) + rule->epsilon);
}

static int try_round(long round) {
    size_t count = 1 + drawn(round % 5 ? 70 : 20000);
    float *weight = numbers(count), *gradient = numbers(count), *first = numbers(count);
    float *second = drawn_numbers(count, 40, 10, 0.5f);
    double *expected = malloc(count * sizeof *expected);
    Update rule = {weight, first, second, gradient, count, (int)drawn(3), 0.1f, 0.01f, 0.99f, 0.5f,
                   drawn(2) ? -1.0f : 0.3f, 0.9f, 0.99f, 1e-3f};
    if (rule.rule != ADAM) rule.second = NULL;
    if (rule.rule == SGD) rule.first = NULL;
    for (size_t at = 0; at < count; at++) expected[at] = moved(&rule, weight[at], gradient[at], first[at], second[at]);
    update(&rule, 1 + (int)drawn(4));
    for (size_t at = 0; at < count; at++) check_within(weight[at], expected[at], 1e-4, "another weight");
    try_squares(weight, count);
    free(weight), free(gradient), free(first), free(second), free(expected);
    return 1;
}

int main(int count, char **arguments) { return run_rounds(count, arguments, try_round); }
