/* Optimizers' arithmetic in the order of MXNet's operators, which round each product and each sum. */

#include "weights/update.h"

#include <math.h>

#include "threads.h"

#define LINE 16 /* numbers of a cache line, of which two threads have none in common */

/* As MXNet does it, which leaves alone what is no number. */
static inline float clipped(float value, float clip) {
    return value > clip ? clip : value < -clip ? -clip : value;
}

static void with_momentum(const Update *update, size_t start, size_t end) {
    float *restrict weight = update->weight, *restrict momentum = update->first;
    const float *restrict gradient = update->gradient;
    float rate = update->rate, rescale = update->rescale, clip = update->clip, kept = update->beta1;
    float rate_decay = rate * update->decay, rate_rescale = rate * rescale;
    int clips = clip >= 0;
    for (size_t i = start; i < end; i++) {
        float part = clips ? rate * clipped(rescale * gradient[i], clip) : rate_rescale * gradient[i];
        float moved = kept * momentum[i] - rate_decay * weight[i] - part;
        momentum[i] = moved;
        weight[i] += moved;
    }
}

static void without_momentum(const Update *update, size_t start, size_t end) {
    float *restrict weight = update->weight;
    const float *restrict gradient = update->gradient;
    float rate = update->rate, rescale = update->rescale, clip = update->clip;
    float rate_decay = rate * update->decay, rate_rescale = rate * rescale;
    int clips = clip >= 0;
    for (size_t i = start; i < end; i++) {
        float part = clips ? rate * clipped(rescale * gradient[i], clip) : rate_rescale * gradient[i];
        weight[i] += 0.0f - rate_decay * weight[i] - part;
    }
}

static void adam(const Update *update, size_t start, size_t end) {
    float *restrict weight = update->weight, *restrict mean = update->first, *restrict squares = update->second;
    const float *restrict gradient = update->gradient;
    float rate = update->rate, decay = update->decay, shrink = update->shrink, rescale = update->rescale;
    float clip = update->clip < 0 ? INFINITY : update->clip, epsilon = update->epsilon;
    float beta1 = update->beta1, beta2 = update->beta2, rest1 = 1.0f - beta1, rest2 = 1.0f - beta2;
    for (size_t i = start; i < end; i++) {
        float before = weight[i] * shrink;
        float slope = clipped(gradient[i] * rescale + decay * before, clip);
        mean[i] = beta1 * mean[i] + rest1 * slope;
        squares[i] = beta2 * squares[i] + rest2 * slope * slope;
        weight[i] = before - rate * mean[i] / (sqrtf(squares[i]) + epsilon);
    }
}

void update(const Update *update, int num_threads) {
    static void (*const rules[])(const Update *, size_t, size_t) = {without_momentum, with_momentum, adam};
    int num_parts = threads_for(update->count, num_threads);
    size_t lines = (update->count + LINE - 1) / LINE;
#pragma omp parallel for num_threads(num_parts) schedule(static, 1) if (num_parts > 1)
    for (int part = 0; part < num_parts; part++) {
        size_t start = lines * (size_t)part / (size_t)num_parts * LINE;
        size_t end = lines * (size_t)(part + 1) / (size_t)num_parts * LINE;
        rules[update->rule](update, start, end < update->count ? end : update->count);
    }
}
