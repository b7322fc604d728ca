/* Random attentions in arrays as long as they have to be and no longer, compared with loops in float64; built with
   sanitizers, which end it where memory is misused. */

#include "tokens/attention.h"
#include "drawn.h"

static float *numbers(size_t count) { return drawn_numbers(count, 4000, 1000, -2); }

static void check(double found, double expected, const char *what) {
    check_within(found, expected, 1e-4 * (1 + fabs(expected)), what);
}

/* Hide what is behind a token, or of another document, or in the padding, or anything, or all that a token sees. */
static void hide(float *added, size_t length, size_t kind) {
    size_t part = 1 + drawn(length);
    for (size_t row = 0; row < length; row++)
        for (size_t column = 0; column < length; column++) {
            int is_hidden = (kind == 1 && column > row) || (kind == 2 && (column > row || column / part != row / part)) ||
                            (kind == 3 && column >= part) || (kind == 4 && drawn(3)) || (kind == 5 && row == part - 1);
            added[row * length + column] = is_hidden ? -1e30f : (float)drawn(1000) / 1000;
        }
}

static void try_one(size_t length, size_t batch, size_t heads, size_t width, size_t kind) {
    size_t row = batch * heads * 3 * width, of_out = batch * heads * width;
    size_t masks = kind == 6 ? 0 : drawn(2) ? 1 : batch * heads;
    float *projected = numbers(length * row), *added = numbers(masks * length * length);
    float *out = numbers(length * of_out), *gradient = numbers(length * of_out), *found = numbers(length * row);
    for (size_t place = 0; place < masks; place++) hide(added + place * length * length, length, kind);
    Attention attention = {length, batch, heads, width, masks, projected, added, (int)drawn(2), {0, 0, 0}};
    float seed[] = {(float)drawn((size_t)SEEDS), (float)drawn((size_t)SEEDS)};
    attention.dropout = dropout_of(seed, (float)drawn(100) / 100);
    float *scratch = numbers(attention_scratch(&attention));
    attend(&attention, out, scratch, 1);
    attend_backward(&attention, gradient, found, scratch, 1);
    float *stays = numbers(length + 8);
    double *shares = malloc(length * sizeof *shares), *expected = calloc(length * row, sizeof *expected);
    for (size_t place = 0; place < batch * heads; place++) {
        const float *begin = projected + place * 3 * width;
        for (size_t token = 0; token < length; token++) {
            const float *query = begin + token * row, *of_row = gradient + token * of_out + place * width;
            double largest = -INFINITY, total = 0, mean = 0;
            for (size_t other = 0; other < length; other++) {
                double score = 0;
                for (size_t at = 0; at < width; at++) score += (double)query[at] * begin[other * row + width + at];
                /* As in float32: what is added to may leave nothing of a score. */
                shares[other] = (float)(score / sqrt((double)width));
                if (masks) shares[other] += added[((masks == 1 ? 0 : place) * length + token) * length + other];
                if (shares[other] > largest) largest = shares[other];
            }
            for (size_t other = 0; other < length; other++) total += shares[other] = exp(shares[other] - largest);
            for (size_t other = 0; other < length; other++) shares[other] /= total;
            for (size_t other = 0; other < length; other++) stays[other] = 1;
            if (attention.drops) drop(&attention.dropout, place * length + token, 0, length, stays);
            for (size_t at = 0; at < width; at++) {
                double sum = 0;
                for (size_t other = 0; other < length; other++)
                    sum += stays[other] * shares[other] * begin[other * row + 2 * width + at];
                check(out[token * of_out + place * width + at], sum, "another value");
                mean += sum * of_row[at];
            }
            for (size_t other = 0; other < length; other++) {
                double of_share = 0;
                for (size_t at = 0; at < width; at++) of_share += of_row[at] * (double)begin[other * row + 2 * width + at];
                double of_score = shares[other] * (stays[other] * of_share - mean) / sqrt((double)width);
                double *of_token = expected + token * row + place * 3 * width;
                double *of_other = expected + other * row + place * 3 * width;
                for (size_t at = 0; at < width; at++) {
                    of_token[at] += of_score * begin[other * row + width + at];
                    of_other[width + at] += of_score * query[at];
                    of_other[2 * width + at] += stays[other] * shares[other] * of_row[at];
                }
            }
        }
    }
    for (size_t at = 0; at < length * row; at++) check(found[at], expected[at], "another gradient");
    free(projected), free(added), free(out), free(gradient), free(found), free(scratch), free(shares), free(expected), free(stays);
}

static int try_round(long round) {
    (void)round;
    try_one(1 + drawn(120), 1 + drawn(2), 1 + drawn(3), 1 + drawn(40), drawn(7));
    return 1;
}

int main(int count, char **arguments) { return run_rounds(count, arguments, try_round); }
