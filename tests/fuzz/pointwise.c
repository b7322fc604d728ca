/* Random convolutions of 1 x 1 in arrays as long as they have to be and no longer, compared with loops in float64; built
   with sanitizers, which end it where memory is misused. */

#include "folded.h"

static int try_round(long round) {
    (void)round;
    size_t inputs = 1 + drawn(40), outputs = 1 + drawn(drawn(3) ? 20 : 120), plane = 1 + drawn(drawn(2) ? 70 : 7), batch = 1 + drawn(5);
    Folded weights = drawn_weights(outputs, inputs);
    float *in = numbers(batch * inputs * plane), *gates = numbers(batch * inputs), *added = numbers(batch * outputs * plane);
    float *out = numbers(batch * outputs * plane);
    Pointwise layer = {.batch = batch, .inputs = inputs, .outputs = outputs, .plane = plane, .in = in,
                       .weights = weights.folded, .activation = (Activation)drawn(4)};
    if (drawn(2)) layer.gates = gates;
    if (drawn(2)) layer.added = added;
    float *scratch = numbers(pointwise_scratch(&layer));
    pointwise_forward(&layer, out, scratch, 1);
    for (size_t at = 0; at < batch * outputs * plane; at++) {
        size_t sample = at / plane / outputs, row = at / plane % outputs, place = at % plane;
        double expected = expanded_slowly(&weights, &layer, sample, row, place) + (layer.added ? added[at] : 0);
        check_within(out[at], expected, 2e-3, "another value");
    }
    end_weights(&weights);
    free(in), free(gates), free(added), free(out), free(scratch);
    return 1;
}

int main(int count, char **arguments) { return run_rounds(count, arguments, try_round); }
