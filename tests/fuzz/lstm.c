/* Random LSTM layers in arrays as long as they have to be and no longer, compared with loops in float64; built with
   sanitizers, which end it where memory is misused. */

#include "tokens/lstm.h"

#include <string.h>

#include "drawn.h"

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* What a layer passes on, from rows of so many inputs; `parameters` and `biases` are its own. */
static void compute(const Lstm *lstm, size_t inputs, const double *in, const float *parameters, const float *biases,
                    double *out) {
    size_t hidden = lstm->hidden, batch = lstm->batch;
    const float *of_states = parameters + 4 * hidden * inputs;
    double *states = calloc(batch * hidden, sizeof *states), *gates = malloc(4 * hidden * sizeof *gates);
    for (size_t step = 0; step < lstm->steps; step++)
        for (size_t sample = 0; sample < batch; sample++) {
            const double *row = in + (step * batch + sample) * inputs;
            const double *before = step ? out + ((step - 1) * batch + sample) * hidden : NULL;
            for (size_t at = 0; at < 4 * hidden; at++) {
                gates[at] = (double)biases[at] + biases[4 * hidden + at];
                for (size_t each = 0; each < inputs; each++) gates[at] += parameters[at * inputs + each] * row[each];
                for (size_t each = 0; before && each < hidden; each++) gates[at] += of_states[at * hidden + each] * before[each];
            }
            for (size_t unit = 0; unit < hidden; unit++) {
                double *state = states + sample * hidden + unit;
                *state = sigmoid(gates[hidden + unit]) * *state + sigmoid(gates[unit]) * tanh(gates[2 * hidden + unit]);
                out[(step * batch + sample) * hidden + unit] = sigmoid(gates[3 * hidden + unit]) * tanh(*state);
            }
        }
    free(states), free(gates);
}

static void try_one(Lstm lstm) {
    size_t rows = lstm.steps * lstm.batch, hidden = lstm.hidden, size = lstm_parameters_size(&lstm);
    float *data = drawn_numbers(rows * lstm.inputs, 4000, 1000, -2), *parameters = drawn_numbers(size, 2000, 1000, -1);
    float *weights = malloc(lstm_weights_size(&lstm) * sizeof *weights), *out = malloc(rows * hidden * sizeof *out);
    float *scratch = malloc(lstm_scratch(&lstm, 1) * sizeof *scratch);
    lstm_weights(&lstm, parameters, weights);
    lstm_forward(&lstm, data, weights, out, scratch, 1);
    double *in = malloc(rows * lstm.inputs * sizeof *in);
    for (size_t at = 0; at < rows * lstm.inputs; at++) in[at] = data[at];
    const float *of_layer = parameters, *biases = parameters + size - lstm.layers * 8 * hidden;
    for (size_t layer = 0; layer < lstm.layers; layer++, biases += 8 * hidden) {
        size_t inputs = layer ? hidden : lstm.inputs;
        double *passed = malloc(rows * hidden * sizeof *passed);
        compute(&lstm, inputs, in, of_layer, biases, passed);
        free(in), in = passed, of_layer += 4 * hidden * (inputs + hidden);
    }
    for (size_t at = 0; at < rows * hidden; at++) check_within(out[at], in[at], 2e-4, "another output");
    free(data), free(parameters), free(weights), free(out), free(scratch), free(in);
}

static int try_round(long round) {
    size_t batch = 1 + drawn(round % 5 ? 9 : 210);
    Lstm lstm = {1 + drawn(batch > 50 ? 3 : 40), batch, 1 + drawn(round % 7 ? 30 : 300), 1 + drawn(50), 1 + drawn(3)};
    try_one(lstm);
    return 1;
}

int main(int count, char **arguments) { return run_rounds(count, arguments, try_round); }
