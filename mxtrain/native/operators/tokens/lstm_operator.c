/* LSTM layers as operators of nets that answer: the first makes weights of MXNet's array of parameters, of layers of so
   many `inputs`, `hidden` units and `layers`; the second computes by them. */

#include "tokens/lstm.h"
#include "operator.h"

#define LEAST_OF_THREAD 65536 /* multiplications of a step: with less, waiting for each other takes longer */

static Lstm lstm_of(Attributes attributes) {
    Lstm lstm = {1, 1, size_of(attributes, "inputs"), size_of(attributes, "hidden"),
                 size_of(attributes, "layers")};
    return lstm;
}

static int is_lstm(Attributes attributes) {
    return whole_number(attributes, "inputs") > 0 && whole_number(attributes, "hidden") > 0 &&
           whole_number(attributes, "layers") > 0;
}

static int weights_shape(Attributes attributes, FoundShape *inputs, FoundShape *output) {
    if (!is_lstm(attributes)) return FAILED;
    Lstm lstm = lstm_of(attributes);
    int64_t parameters[] = {(int64_t)lstm_parameters_size(&lstm)};
    *output = (FoundShape){{(int64_t)lstm_weights_size(&lstm)}, 1};
    return has_sizes(&inputs[0], 1, parameters) ? DONE : FAILED;
}

static int make_weights(const Call *call) {
    Lstm lstm = lstm_of(call->attributes);
    lstm_weights(&lstm, call->in[0], call->out[0]);
    return DONE;
}

static int shape(Attributes attributes, FoundShape *inputs, FoundShape *output) {
    const int64_t *data = inputs[0].sizes;
    if (!is_lstm(attributes) || inputs[0].count != 3 || data[0] < 1 || data[1] < 1) return FAILED;
    Lstm lstm = lstm_of(attributes);
    int64_t weights[] = {(int64_t)lstm_weights_size(&lstm)};
    if (data[2] != (int64_t)lstm.inputs || !has_sizes(&inputs[1], 1, weights)) return FAILED;
    *output = (FoundShape){{data[0], data[1], (int64_t)lstm.hidden}, 3};
    return DONE;
}

static int forward(const Call *call) {
    Lstm lstm = lstm_of(call->attributes);
    lstm.steps = (size_t)call->inputs[0].sizes[0], lstm.batch = (size_t)call->inputs[0].sizes[1];
    size_t useful = lstm.batch * lstm.hidden * lstm.hidden * 4 / LEAST_OF_THREAD + 1;
    int threads = useful < (size_t)call->num_threads ? (int)useful : call->num_threads;
    size_t bytes = lstm_scratch(&lstm, threads) * sizeof(float);
    float *scratch = bytes > INT32_MAX ? NULL : call->allocate(call->allocator, (int)bytes);
    if (!scratch) return FAILED;
    lstm_forward(&lstm, call->in[0], call->in[1], call->out[0], scratch, threads);
    return DONE;
}

const Operator lstm_weights_operator = {"mxtrain_lstm_weights", 1, 1, weights_shape, make_weights, no_backward, 0, {0}};
const Operator lstm_operator = {"mxtrain_lstm", 2, 1, shape, forward, no_backward, 0, {0}};
