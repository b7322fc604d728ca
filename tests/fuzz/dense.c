/* Random dense layers in arrays as long as they have to be and no longer, compared with loops in float64; built with
   sanitizers, which end it where memory is misused. */

#include "products/dense.h"
#include "drawn.h"

static float *numbers(size_t count) { return drawn_numbers(count, 400, 100, -2); }

static void check(double found, double expected, const char *what) {
    check_within(found, expected, 1e-3 * (1 + fabs(expected)), what);
}

static void try_one(size_t rows, size_t inputs, size_t outputs) {
    float *data = numbers(rows * inputs), *weights = numbers(outputs * inputs), *bias = numbers(outputs);
    float *out = numbers(rows * outputs), *of_out = numbers(rows * outputs);
    float *of_data = numbers(rows * inputs), *of_weights = numbers(outputs * inputs), *of_bias = numbers(outputs);
    Dense dense = {rows, inputs, outputs, data, weights, bias};
    void *scratch = malloc(dense_scratch(&dense, 1));
    dense_forward(&dense, out, scratch, 1);
    dense_backward(&dense, of_out, of_data, of_weights, of_bias, scratch, 1);
    for (size_t row = 0; row < rows; row++)
        for (size_t output = 0; output < outputs; output++) {
            double sum = bias[output];
            for (size_t at = 0; at < inputs; at++) sum += (double)data[row * inputs + at] * weights[output * inputs + at];
            check(out[row * outputs + output], sum, "another value");
        }
    for (size_t row = 0; row < rows; row++)
        for (size_t at = 0; at < inputs; at++) {
            double sum = 0;
            for (size_t output = 0; output < outputs; output++)
                sum += (double)of_out[row * outputs + output] * weights[output * inputs + at];
            check(of_data[row * inputs + at], sum, "another gradient");
        }
    for (size_t output = 0; output < outputs; output++) {
        double all = 0;
        for (size_t row = 0; row < rows; row++) all += of_out[row * outputs + output];
        check(of_bias[output], all, "another gradient of the bias");
        for (size_t at = 0; at < inputs; at++) {
            double sum = 0;
            for (size_t row = 0; row < rows; row++)
                sum += (double)of_out[row * outputs + output] * data[row * inputs + at];
            check(of_weights[output * inputs + at], sum, "another gradient of a weight");
        }
    }
    free(data), free(weights), free(bias), free(out), free(of_out), free(of_data), free(of_weights), free(of_bias);
    free(scratch);
}

static int try_round(long round) {
    size_t kind = (size_t)round % 10;
    try_one(drawn(kind == 1 ? 9000 : 60), 1 + drawn(kind == 2 ? 600 : 40), 1 + drawn(kind == 3 ? 600 : 40));
    return 1;
}

int main(int count, char **arguments) { return run_rounds(count, arguments, try_round); }
