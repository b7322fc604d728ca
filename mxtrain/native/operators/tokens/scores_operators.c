/* Of scores (..., classes): their cross-entropy with labels (...), and the likeliest class. */

#include <string.h>

#include "operator.h"
#include "tokens/scores.h"

static FoundShape rows_of(const FoundShape *scores) {
    FoundShape rows = {{0}, scores->count - 1};
    for (int at = 0; at < rows.count; at++) rows.sizes[at] = scores->sizes[at];
    return rows;
}

static Scores scores_of(const Call *call, int first, const float *labels) {
    const Shape *shape = call->inputs + first;
    Scores scores = {1, (size_t)shape->sizes[shape->count - 1], call->in[first], labels,
                     number(call->attributes, "smoothing", 0)};
    for (int at = 0; at < shape->count - 1; at++) scores.rows *= (size_t)shape->sizes[at];
    return scores;
}

static int cross_entropy_shape(Attributes attributes, FoundShape *inputs, FoundShape *outputs) {
    (void)attributes;
    const FoundShape *scores = inputs, *labels = inputs + 1;
    if (scores->count < 2 || labels->count != scores->count - 1) return FAILED;
    for (int at = 0; at < labels->count; at++)
        if (labels->sizes[at] != scores->sizes[at]) return FAILED;
    outputs[0] = outputs[1] = rows_of(scores);
    outputs[1].sizes[outputs[1].count++] = 2;
    return DONE;
}

static int forward(const Call *call) {
    Scores scores = scores_of(call, 0, call->in[1]);
    cross_entropy(&scores, call->out[0], call->out[1], call->num_threads);
    return DONE;
}

/* Comes with the gradients of both outputs, the scores, the labels and both outputs. Labels have none. */
static int backward(const Call *call) {
    Scores scores = scores_of(call, 2, call->in[3]);
    cross_entropy_backward(&scores, call->in[0], call->in[5], call->out[0], call->num_threads);
    memset(call->out[1], 0, scores.rows * sizeof(float));
    return DONE;
}

static int likeliest_shape(Attributes attributes, FoundShape *inputs, FoundShape *output) {
    (void)attributes;
    if (inputs->count < 2) return FAILED;
    *output = rows_of(inputs);
    return DONE;
}

static int likeliest(const Call *call) {
    Scores scores = scores_of(call, 0, NULL);
    find_likeliest(&scores, call->out[0], call->num_threads);
    return DONE;
}

const Operator cross_entropy_operator = {"mxtrain_cross_entropy", 2, 2, cross_entropy_shape, forward, backward, 0, {0}};
const Operator likeliest_operator = {"mxtrain_likeliest", 1, 1, likeliest_shape, likeliest, NULL, 0, {0}};
