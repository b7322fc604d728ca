/* Random dense layers by packed weights in arrays as long as they have to be and no longer, compared with loops in float64;
   built with sanitizers, which end it where memory is misused. */

#include "products/packed_dense.h"

#include <string.h>

#include "drawn.h"

/* Arrays that begin at a line of the cache, as MXNet's do, or not. */
static float *numbers(size_t count, size_t shift) {
    void *found;
    if (posix_memalign(&found, 64, (count + shift) * sizeof(float))) exit(1);
    for (size_t at = 0; at < count; at++) ((float *)found)[shift + at] = (float)drawn(401) / 100 - 2;
    return (float *)found + shift;
}

static void try_one(size_t rows, size_t inputs, size_t outputs, size_t shift, size_t checked) {
    float *data = numbers(rows * inputs, shift), *weights = numbers(outputs * inputs, 0), *bias = numbers(outputs, 0);
    float *packed = malloc(packed_size(inputs, outputs) * sizeof *packed), *out = numbers(rows * outputs, shift);
    pack(inputs, outputs, weights, bias, packed, 1);
    PackedDense dense = {rows, inputs, outputs, data, packed};
    int threads = 1 + (int)drawn(9); /* which share scratch memory and the layer; one computes all */
    float *scratch = malloc(packed_scratch(&dense, threads) * sizeof *scratch);
    packed_forward(&dense, out, scratch, threads);
    for (size_t row = 0; row < rows; row += 1 + drawn(checked))
        for (size_t output = 0; output < outputs; output++) {
            double sum = bias[output];
            for (size_t at = 0; at < inputs; at++) sum += (double)data[row * inputs + at] * weights[output * inputs + at];
            check_within(out[row * outputs + output], sum, 1e-3 * (1 + fabs(sum)), "another value");
        }
    free(data - shift), free(weights), free(bias), free(packed), free(out - shift), free(scratch);
}

static int try_round(long round) {
    if (round % 200 == 1) /* outputs that are written past the caches */
        try_one(4200, 1 + drawn(3), 1008, round % 400 == 1 ? 0 : 4, 200);
    else
        try_one(drawn(round % 10 == 2 ? 1200 : 40), 1 + drawn(round % 10 == 3 ? 6000 : 40),
                1 + drawn(round % 10 == 4 ? 900 : 70), drawn(2), 1);
    return 1;
}

int main(int count, char **arguments) { return run_rounds(count, arguments, try_round); }
