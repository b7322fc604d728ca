/* Random reductions of arrays as long as they have to be and no longer, compared with loops in float64; built with
   sanitizers, which end it where memory is misused. */

#include "tokens/reduction.h"
#include "drawn.h"

static float *numbers(size_t count) { return drawn_numbers(count, 40, 10, -2); }

static void check(double found, double expected, const char *what) {
    check_within(found, expected, 1e-4, what);
}

static void try_one(size_t before, size_t along, size_t after, Kind kind) {
    size_t count = before * along * after;
    float *data = numbers(count), *out = numbers(before * after), *of_out = numbers(before * after);
    float *of_data = numbers(count);
    Reduction reduction = {kind, before, along, after, data};
    reduce(&reduction, out, 1);
    reduce_backward(&reduction, out, of_out, of_data, 1);
    for (size_t part = 0; part < before; part++)
        for (size_t column = 0; column < after; column++) {
            const float *begin = data + part * along * after + column;
            double sum = 0, most = -INFINITY, gradient = of_out[part * after + column];
            for (size_t row = 0; row < along; row++) sum += begin[row * after], most = fmax(most, begin[row * after]);
            if (kind == MEAN) sum /= (double)along, gradient /= (double)along;
            check(out[part * after + column], kind == LARGEST ? most : sum, "another value");
            for (size_t row = 0; row < along; row++) {
                double right = kind != LARGEST || begin[row * after] == most ? gradient : 0;
                check(of_data[(part * along + row) * after + column], right, "another gradient");
            }
        }
    free(data), free(out), free(of_out), free(of_data);
}

static int try_round(long round) {
    try_one(drawn(5), 1 + drawn(30), 1 + drawn(round % 5 ? 40 : 800), (Kind)drawn(3));
    return 1;
}

int main(int count, char **arguments) { return run_rounds(count, arguments, try_round); }
