/* A channel of all samples is one thread's, plane by plane, so that between the first layer and the last its numbers stay
   in the cache. Nothing between the two is kept for the backward pass, which makes it again. */

#include "channels/channels.h"

#include <math.h>
#include <string.h>

#include "threads.h"

#define CHANNELS_AT_A_TIME 4 /* of a thread: planes of neighbours share pages and the ends of cache lines */

/* A thread's scratch memory, cut into arrays. */
typedef struct {
    float *padded, *convolved, *gradient, *of_input, *row;
} Scratch;

static size_t cut(const Run *run, float *memory, Scratch *scratch) {
    const Geometry *g = &run->geometry;
    if (!run->weights) return LANES;
    size_t sizes[] = {padded_size(g), run->batch * out_size(g), gradient_size(g), in_size(g), whole_lanes(g->width) + LANES};
    if (run->is_judging) sizes[1] = sizes[2] = sizes[3] = 0; /* a plane is done with before the next one */
    float **arrays[] = {&scratch->padded, &scratch->convolved, &scratch->gradient, &scratch->of_input, &scratch->row};
    return cut_memory(memory, sizes, arrays, sizeof sizes / sizeof *sizes);
}

size_t run_scratch(const Run *run) {
    Scratch scratch;
    return whole_lanes(cut(run, NULL, &scratch));
}

/* A channel of a sample, as rows or as one. */
static Plane plane_of(const float *numbers, const Run *run, size_t sample, size_t channel, size_t height, size_t width) {
    size_t size = height * width;
    return (Plane){(float *)numbers + (sample * run->channels + channel) * size, height, width, width};
}

static Plane in_one_row(Plane plane) { return (Plane){plane.numbers, 1, plane.height * plane.width, 0}; }

static Plane in_plane(const Run *run, const float *numbers, size_t sample, size_t channel) {
    return plane_of(numbers, run, sample, channel, run->geometry.height, run->geometry.width);
}

static Plane out_plane(const Run *run, const float *numbers, size_t sample, size_t channel) {
    Plane plane = plane_of(numbers, run, sample, channel, run->geometry.out_height, run->geometry.out_width);
    return run->weights ? plane : in_one_row(plane);
}

/* What the last norm takes: the convolution, in scratch memory, or the input itself. */
static Plane convolved_plane(const Run *run, const Scratch *scratch, size_t sample, size_t channel) {
    const Geometry *g = &run->geometry;
    if (!run->weights) return out_plane(run, run->in, sample, channel);
    return (Plane){scratch->convolved + sample * out_size(g), g->out_height, g->out_width, g->out_row};
}

static ChannelNorm channel_norm(const Norm *norm, size_t channel, float mean, float inverse) {
    float scale = norm->has_gamma ? inverse * norm->gamma[channel] : inverse;
    return (ChannelNorm){mean, inverse, scale, norm->beta[channel], norm->activation};
}

/* The norm of a channel by what was counted of it, which is noted among the statistics. */
static ChannelNorm counted_norm(const Run *run, const Norm *norm, size_t channel, const Moments *moments,
                                float *statistics) {
    float inverse = (float)(1 / sqrt(moments->squares / moments->count + norm->epsilon));
    statistics[channel] = (float)moments->mean, statistics[run->channels + channel] = inverse;
    return channel_norm(norm, channel, (float)moments->mean, inverse);
}

ChannelNorm running_norm(const Norm *norm, size_t channel) {
    float inverse = (float)(1 / sqrt((double)norm->running_variance[channel] + norm->epsilon));
    return channel_norm(norm, channel, norm->running_mean[channel], inverse);
}

static ChannelNorm noted_norm(const Run *run, const Norm *norm, size_t channel, const float *statistics) {
    return channel_norm(norm, channel, statistics[channel], statistics[run->channels + channel]);
}

/* Put a channel of a sample into the padded plane, behind its norm. */
static void pad(const Run *run, size_t sample, size_t channel, const ChannelNorm *before, const Scratch *scratch) {
    Plane plane = in_plane(run, run->in, sample, channel);
    for (size_t row = 0; row < plane.height; row++) {
        const float *numbers = plane.numbers + row * plane.stride;
        if (before) normalize_row(numbers, plane.width, before, scratch->row);
        put_row(&run->geometry, before ? scratch->row : numbers, row, scratch->padded);
    }
}

/* Convolve a channel of a sample. */
static void convolve_channel(const Run *run, size_t sample, size_t channel, const ChannelNorm *before,
                             const Scratch *scratch) {
    const Geometry *g = &run->geometry;
    pad(run, sample, channel, before, scratch);
    convolve(g, scratch->padded, run->weights + channel * g->kernel * g->kernel,
             convolved_plane(run, scratch, sample, channel).numbers);
}

/* The scratch memory of this thread, in which borders and what is behind rows are zeros, once for all channels. */
static Scratch own_scratch(const Run *run, float *memory) {
    Scratch scratch = {NULL, NULL, NULL, NULL, NULL};
    cut(run, memory + (size_t)omp_get_thread_num() * run_scratch(run), &scratch);
    if (!run->weights) return scratch;
    memset(scratch.padded, 0, padded_size(&run->geometry) * sizeof(float));
    if (!run->is_judging) memset(scratch.gradient, 0, gradient_size(&run->geometry) * sizeof(float));
    memset(scratch.row, 0, (whole_lanes(run->geometry.width) + LANES) * sizeof(float));
    return scratch;
}

static const ChannelNorm NO_NORM = {0, 1, 1, 0, IDENTITY};

static void forward_channel(const Run *run, size_t channel, float *out, float *statistics, const Scratch *scratch) {
    ChannelNorm before = NO_NORM;
    if (run->before) {
        Moments moments = {0, 0, 0};
        for (size_t sample = 0; sample < run->batch; sample++)
            add_moments(in_one_row(in_plane(run, run->in, sample, channel)), &moments);
        before = counted_norm(run, run->before, channel, &moments, statistics);
    }
    Moments moments = {0, 0, 0};
    for (size_t sample = 0; sample < run->batch; sample++) {
        if (run->weights) convolve_channel(run, sample, channel, &before, scratch);
        add_moments(convolved_plane(run, scratch, sample, channel), &moments);
    }
    ChannelNorm behind = counted_norm(run, run->behind, channel, &moments, statistics + 2 * run->channels);
    for (size_t sample = 0; sample < run->batch; sample++)
        normalize(convolved_plane(run, scratch, sample, channel), &behind, out_plane(run, out, sample, channel));
}

/* Note the gradients of a norm's gamma and beta, and move its running statistics as MXNet does. */
static void end_norm(const Norm *norm, size_t channel, const ChannelNorm *of_channel, const GradientSums *sums,
                     float *gamma, float *beta) {
    float rest = 1 - norm->momentum, variance = 1 / (of_channel->inverse * of_channel->inverse) - norm->epsilon;
    gamma[channel] = norm->has_gamma ? (float)sums->products : 0;
    beta[channel] = (float)sums->gradients;
    norm->running_mean[channel] = norm->running_mean[channel] * norm->momentum + of_channel->mean * rest;
    norm->running_variance[channel] = norm->running_variance[channel] * norm->momentum + variance * rest;
}

/* Write the gradients of what the first norm gives, or of the input where there is none, and of the weights. */
static void convolve_channel_back(const Run *run, size_t channel, const float *gradient, const ChannelNorm *before,
                                  const ChannelNorm *behind, const GradientSums *sums, double count,
                                  const RunGradients *gradients, GradientSums *sums_before, const Scratch *scratch) {
    const Geometry *g = &run->geometry;
    size_t taps = g->kernel * g->kernel;
    double of_weights[49] = {0};
    Plane padded_gradient = {scratch->gradient + g->lead * g->gradient_row + g->lead, g->out_height, g->out_width,
                             g->gradient_row};
    Plane of_input = {scratch->of_input + g->pad, g->height, g->width, g->in_row};
    for (size_t sample = 0; sample < run->batch; sample++) {
        normalize_back(convolved_plane(run, scratch, sample, channel), out_plane(run, gradient, sample, channel), behind,
                       sums, count, padded_gradient, 1);
        pad(run, sample, channel, before, scratch);
        add_gradient_of_weights(g, scratch->padded, scratch->gradient, of_weights);
        convolve_back(g, scratch->gradient, run->weights + channel * taps, scratch->of_input);
        add_gradients(in_plane(run, run->in, sample, channel), of_input, before,
                      in_plane(run, gradients->in, sample, channel), sums_before);
    }
    for (size_t tap = 0; tap < taps; tap++) gradients->weights[channel * taps + tap] = (float)of_weights[tap];
}

static void backward_channel(const Run *run, size_t channel, const float *gradient, const float *statistics,
                             const RunGradients *gradients, const Scratch *scratch) {
    const Geometry *g = &run->geometry;
    double count = (double)(run->batch * g->height * g->width), out_count = (double)(run->batch * g->out_height * g->out_width);
    ChannelNorm before = run->before ? noted_norm(run, run->before, channel, statistics) : NO_NORM;
    ChannelNorm behind = noted_norm(run, run->behind, channel, statistics + 2 * run->channels);
    GradientSums sums = {0, 0}, sums_before = {0, 0};
    Plane nowhere = {NULL, 0, 0, 0};
    for (size_t sample = 0; sample < run->batch; sample++) {
        if (run->weights) convolve_channel(run, sample, channel, &before, scratch);
        add_gradients(convolved_plane(run, scratch, sample, channel), out_plane(run, gradient, sample, channel), &behind,
                      nowhere, &sums);
    }
    end_norm(run->behind, channel, &behind, &sums, gradients->gamma_behind, gradients->beta_behind);
    if (!run->weights) {
        for (size_t sample = 0; sample < run->batch; sample++)
            normalize_back(out_plane(run, run->in, sample, channel), out_plane(run, gradient, sample, channel), &behind,
                           &sums, out_count, out_plane(run, gradients->in, sample, channel), 0);
        return;
    }
    convolve_channel_back(run, channel, gradient, &before, &behind, &sums, out_count, gradients, &sums_before, scratch);
    if (!run->before) return;
    end_norm(run->before, channel, &before, &sums_before, gradients->gamma_before, gradients->beta_before);
    before.activation = IDENTITY; /* its gradients are those before the activation now */
    for (size_t sample = 0; sample < run->batch; sample++) {
        Plane of_in = in_one_row(in_plane(run, gradients->in, sample, channel));
        normalize_back(in_one_row(in_plane(run, run->in, sample, channel)), of_in, &before, &sums_before, count, of_in, 0);
    }
}

/* As in training, but each sample by itself. */
static void judge_channel(const Run *run, size_t channel, float *out, const Scratch *scratch) {
    const Geometry *g = &run->geometry;
    ChannelNorm before = NO_NORM, behind = running_norm(run->behind, channel);
    if (run->before) before = running_norm(run->before, channel);
    for (size_t sample = 0; sample < run->batch; sample++) {
        Plane to = out_plane(run, out, sample, channel);
        if (!run->weights) {
            normalize(out_plane(run, run->in, sample, channel), &behind, to);
            continue;
        }
        pad(run, sample, channel, run->before ? &before : NULL, scratch);
        convolve_and_normalize(g, scratch->padded, run->weights + channel * g->kernel * g->kernel, &behind, to.numbers);
    }
}

void run_forward(const Run *run, float *out, float *statistics, float *memory, int num_threads) {
#pragma omp parallel num_threads(num_threads)
    {
        Scratch scratch = own_scratch(run, memory);
#pragma omp for schedule(dynamic, CHANNELS_AT_A_TIME)
        for (size_t channel = 0; channel < run->channels; channel++) {
            if (run->is_judging)
                judge_channel(run, channel, out, &scratch);
            else
                forward_channel(run, channel, out, statistics, &scratch);
        }
    }
}

void run_backward(const Run *run, const float *gradient, const float *statistics, const RunGradients *gradients,
                  float *memory, int num_threads) {
#pragma omp parallel num_threads(num_threads)
    {
        Scratch scratch = own_scratch(run, memory);
#pragma omp for schedule(dynamic, CHANNELS_AT_A_TIME)
        for (size_t channel = 0; channel < run->channels; channel++)
            backward_channel(run, channel, gradient, statistics, gradients, &scratch);
    }
}
