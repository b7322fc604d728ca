/* Random runs of norms and depthwise convolutions in arrays as long as they have to be and no longer, compared with loops
   in float64; built with sanitizers, which end it where memory is misused. */

#include "channels/channels.h"
#include "drawn.h"

static float *numbers(size_t count) { return drawn_numbers(count, 4000, 1000, -1.5f); }

static void check(const float *found, const double *expected, size_t count, const char *what) {
    double largest = 2; /* of sums that are 0 but for rounding */
    for (size_t at = 0; at < count; at++) largest = fmax(largest, fabs(expected[at]));
    for (size_t at = 0; at < count; at++) check_within(found[at], expected[at], 2e-3 * largest, what);
}

static double activated(Activation activation, double number) {
    if (activation == IDENTITY) return number;
    if (activation == HARD_SWISH) return number * fmin(1, fmax(0, number / 6 + 0.5));
    return activation == RELU ? fmax(0, number) : fmin(6, fmax(0, number));
}

static double slope(Activation activation, double number) {
    if (activation == IDENTITY) return 1;
    if (activation == RELU) return number > 0;
    if (activation == RELU6) return number > 0 && number <= 6;
    return number <= -3 ? 0 : number >= 3 ? 1 : number / 3 + 0.5;
}

/* A norm in float64, of one channel's numbers: what it normalised, and the inverse deviation. */
static double normalize_slowly(const double *in, size_t count, double epsilon, double *normalized) {
    double mean = 0, squares = 0;
    for (size_t at = 0; at < count; at++) mean += in[at] / (double)count;
    for (size_t at = 0; at < count; at++) squares += (in[at] - mean) * (in[at] - mean) / (double)count;
    for (size_t at = 0; at < count; at++) normalized[at] = (in[at] - mean) / sqrt(squares + epsilon);
    return 1 / sqrt(squares + epsilon);
}

/* Turn gradients behind the activation into those before the norm; note those of gamma and beta. */
static void normalize_back_slowly(const double *normalized, double inverse, const Norm *norm, size_t channel, size_t count,
                                  double *gradient, double *of_gamma, double *of_beta) {
    double gamma = norm->has_gamma ? norm->gamma[channel] : 1, sum = 0, products = 0;
    for (size_t at = 0; at < count; at++) {
        gradient[at] *= slope(norm->activation, normalized[at] * gamma + norm->beta[channel]);
        sum += gradient[at], products += gradient[at] * normalized[at];
    }
    for (size_t at = 0; at < count; at++)
        gradient[at] = gamma * inverse * (gradient[at] - (sum + products * normalized[at]) / (double)count);
    *of_gamma = norm->has_gamma ? products : 0, *of_beta = sum;
}

/* Where a tap of the output's number `at` reads; -1 in the padding. */
static long tap_place(const Geometry *g, size_t row, size_t column, size_t tap) {
    long down = (long)(row * g->stride + tap / g->kernel) - (long)g->pad;
    long right = (long)(column * g->stride + tap % g->kernel) - (long)g->pad;
    return down < 0 || right < 0 || down >= (long)g->height || right >= (long)g->width ? -1
                                                                                       : down * (long)g->width + right;
}

static void try_channel(const Run *run, size_t channel, const float *out, const float *of_out, const RunGradients *found) {
    const Geometry *g = &run->geometry;
    size_t size = g->height * g->width, out_size = g->out_height * g->out_width, taps = g->kernel * g->kernel;
    size_t count = run->batch * size, out_count = run->batch * out_size;
    double *in = malloc(count * sizeof *in), *first = malloc(count * sizeof *in), *seen = malloc(count * sizeof *in);
    double *convolved = calloc(out_count, sizeof *in), *last = malloc(out_count * sizeof *in), inverse = 1, of_weights[49] = {0};
    double *of_in = calloc(count, sizeof *in), *of_last = malloc(out_count * sizeof *in), of_gamma, of_beta;
    for (size_t at = 0; at < count; at++)
        in[at] = run->in[(at / size * run->channels + channel) * size + at % size];
    if (run->before) inverse = normalize_slowly(in, count, run->before->epsilon, first);
    for (size_t at = 0; at < count; at++) {
        double gamma = run->before && run->before->has_gamma ? run->before->gamma[channel] : 1;
        seen[at] = run->before ? activated(run->before->activation, first[at] * gamma + run->before->beta[channel]) : in[at];
    }
    for (size_t at = 0; at < out_count; at++) {
        if (!run->weights) convolved[at] = in[at];
        for (size_t tap = 0; run->weights && tap < taps; tap++) {
            long place = tap_place(g, at % out_size / g->out_width, at % g->out_width, tap);
            if (place >= 0) convolved[at] += seen[at / out_size * size + (size_t)place] * run->weights[channel * taps + tap];
        }
    }
    double last_inverse = normalize_slowly(convolved, out_count, run->behind->epsilon, last);
    double gamma = run->behind->has_gamma ? run->behind->gamma[channel] : 1;
    for (size_t at = 0; at < out_count; at++) {
        size_t place = (at / out_size * run->channels + channel) * out_size + at % out_size;
        double expected = activated(run->behind->activation, last[at] * gamma + run->behind->beta[channel]);
        check_within(out[place], expected, 2e-3, "another value");
        of_last[at] = of_out[place];
    }
    normalize_back_slowly(last, last_inverse, run->behind, channel, out_count, of_last, &of_gamma, &of_beta);
    check(found->gamma_behind + channel, &of_gamma, 1, "gamma behind"), check(found->beta_behind + channel, &of_beta, 1, "beta");
    for (size_t at = 0; at < out_count; at++) {
        if (!run->weights) of_in[at] = of_last[at];
        for (size_t tap = 0; run->weights && tap < taps; tap++) {
            long place = tap_place(g, at % out_size / g->out_width, at % g->out_width, tap);
            if (place < 0) continue;
            of_in[at / out_size * size + (size_t)place] += of_last[at] * run->weights[channel * taps + tap];
            of_weights[tap] += of_last[at] * seen[at / out_size * size + (size_t)place];
        }
    }
    if (run->weights) check(found->weights + channel * taps, of_weights, taps, "weights");
    if (run->before) {
        normalize_back_slowly(first, inverse, run->before, channel, count, of_in, &of_gamma, &of_beta);
        check(found->gamma_before + channel, &of_gamma, 1, "gamma before"), check(found->beta_before + channel, &of_beta, 1, "beta");
    }
    float *of_channel = malloc(count * sizeof *of_channel);
    for (size_t at = 0; at < count; at++) of_channel[at] = found->in[(at / size * run->channels + channel) * size + at % size];
    check(of_channel, of_in, count, "input");
    free(in), free(first), free(seen), free(convolved), free(last), free(of_in), free(of_last), free(of_channel);
}

static Norm drawn_norm(size_t channels) {
    return (Norm){numbers(channels), numbers(channels), numbers(channels),           numbers(channels),
                  3e-2f,             0.9f,              (Activation)drawn(4), drawn(3) != 0};
}

static void end_norm(Norm *norm) {
    free((void *)norm->gamma), free((void *)norm->beta), free(norm->running_mean), free(norm->running_variance);
}

static int try_round(long round) {
    (void)round;
    static const size_t KERNELS[] = {3, 5, 7};
    size_t channels = 1 + drawn(4), kernel = KERNELS[drawn(3)];
    Run run = {.batch = 1 + drawn(3), .channels = channels};
    run.geometry = (Geometry){.kernel = kernel, .stride = 1 + drawn(2), .pad = drawn(kernel), .height = 1 + drawn(20), .width = 1 + drawn(35)};
    int has_weights = drawn(4) != 0;
    if (has_weights && !lay_out(&run.geometry)) return 0;
    if (!has_weights) run.geometry.out_height = run.geometry.height, run.geometry.out_width = run.geometry.width;
    Norm before = drawn_norm(channels), behind = drawn_norm(channels);
    size_t size = run.batch * channels * run.geometry.height * run.geometry.width;
    size_t out_size = run.batch * channels * run.geometry.out_height * run.geometry.out_width;
    float *in = numbers(size), *weights = numbers(channels * kernel * kernel), *out = numbers(out_size);
    float *of_out = numbers(out_size), *statistics = numbers(STATISTICS * channels);
    run.in = in, run.behind = &behind;
    if (has_weights) run.weights = weights;
    if (has_weights && drawn(2)) run.before = &before;
    RunGradients found = {numbers(size),     numbers(channels * kernel * kernel), numbers(channels), numbers(channels),
                          numbers(channels), numbers(channels)};
    float *scratch = numbers(run_scratch(&run));
    run_forward(&run, out, statistics, scratch, 1);
    run_backward(&run, of_out, statistics, &found, scratch, 1);
    for (size_t channel = 0; channel < channels; channel++) try_channel(&run, channel, out, of_out, &found);
    free(in), free(weights), free(out), free(of_out), free(statistics), free(scratch);
    free(found.in), free(found.weights), free(found.gamma_before), free(found.beta_before);
    free(found.gamma_behind), free(found.beta_behind), end_norm(&before), end_norm(&behind);
    return 1;
}

int main(int count, char **arguments) { return run_rounds(count, arguments, try_round); }
