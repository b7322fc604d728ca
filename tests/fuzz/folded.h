/* What programs share that try convolutions of 1 x 1 whose weights a norm is folded into. */

#ifndef MXTRAIN_TESTS_FOLDED_H
#define MXTRAIN_TESTS_FOLDED_H

#include "drawn.h"
#include "pointwise.h"

typedef struct {
    FoldedNorm norm;
    float *folded;
} Folded;

static float *numbers(size_t count) { return drawn_numbers(count, 2000, 1000, -1); }

static float *variances(size_t count) { return drawn_numbers(count, 1000, 1000, 0.5f); }

static Folded drawn_weights(size_t outputs, size_t inputs) {
    Folded found = {{outputs, inputs, numbers(outputs * inputs), numbers(outputs), numbers(outputs), numbers(outputs),
                     variances(outputs), 1e-3f},
                    numbers(folded_size(outputs, inputs))};
    float *gamma = (float *)found.norm.gamma;
    if (!drawn(3)) free(gamma), found.norm.gamma = NULL;
    fold_norm(&found.norm, found.folded);
    return found;
}

static void end_weights(Folded *weights) {
    FoldedNorm *norm = &weights->norm;
    free((void *)norm->weights), free((void *)norm->gamma), free((void *)norm->beta), free((void *)norm->mean);
    free((void *)norm->variance), free(weights->folded);
}

static double activated(Activation activation, double number) {
    if (activation == IDENTITY) return number;
    if (activation == HARD_SWISH) return number * fmin(1, fmax(0, number / 6 + 0.5));
    return activation == RELU ? fmax(0, number) : fmin(6, fmax(0, number));
}

/* A norm by running statistics, in float64. */
static double normalized_slowly(double number, double gamma, double beta, double mean, double variance, double epsilon) {
    return (number - mean) / sqrt(variance + epsilon) * gamma + beta;
}

/* What such a convolution gives at a place of a sample, behind its activation. */
static double expanded_slowly(const Folded *weights, const Pointwise *layer, size_t sample, size_t row, size_t place) {
    const FoldedNorm *norm = &weights->norm;
    double sum = 0;
    for (size_t input = 0; input < layer->inputs; input++) {
        size_t channel = sample * layer->inputs + input;
        double gate = layer->gates ? layer->gates[channel] : 1;
        sum += gate * layer->in[channel * layer->plane + place] * norm->weights[row * layer->inputs + input];
    }
    sum = normalized_slowly(sum, norm->gamma ? norm->gamma[row] : 1, norm->beta[row], norm->mean[row], norm->variance[row],
                            norm->epsilon);
    return activated(layer->activation, sum);
}

#endif
