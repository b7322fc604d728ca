/* Random rows of scores in arrays as long as they have to be and no longer, compared with loops in float64; built with
   sanitizers, which end it where memory is misused. */

#include "tokens/scores.h"
#include "drawn.h"

static float *numbers(size_t count) { return drawn_numbers(count, 4000, 1000, -2); }

static void check(double found, double expected, const char *what) {
    check_within(found, expected, 1e-4, what);
}

/* Labels are classes, and what is none: below 0, beyond the last, no number. */
static float label_among(size_t classes) {
    const float others[] = {-1, -1e30f, 1e30f, NAN, INFINITY, -INFINITY, (float)classes};
    return drawn(3) ? (float)drawn(classes) : others[drawn(sizeof others / sizeof *others)];
}

static size_t nearest(float label, size_t classes) {
    if (isnan(label) || label < 0) return 0;
    return label > (float)(classes - 1) ? classes - 1 : (size_t)label;
}

static void try_one(size_t rows, size_t classes) {
    float *all = numbers(rows * classes), *labels = numbers(rows), *of_losses = numbers(rows), *losses = numbers(rows);
    float *spreads = numbers(2 * rows), *of_scores = numbers(rows * classes), *places = numbers(rows);
    for (size_t row = 0; row < rows; row++) labels[row] = label_among(classes);
    Scores scores = {rows, classes, all, labels, drawn(2) ? 0 : (float)drawn(1000) / 1000};
    cross_entropy(&scores, losses, spreads, 1);
    cross_entropy_backward(&scores, of_losses, spreads, of_scores, 1);
    find_likeliest(&scores, places, 1);
    for (size_t row = 0; row < rows; row++) {
        const float *begin = all + row * classes;
        size_t label = nearest(labels[row], classes), best = 0;
        double total = 0, mean = 0;
        for (size_t at = 0; at < classes; at++) {
            total += exp(begin[at]), mean += begin[at] / (double)classes;
            if (begin[at] > begin[best]) best = at;
        }
        double smoothing = scores.smoothing;
        check(losses[row], log(total) - (1 - smoothing) * begin[label] - smoothing * mean, "another loss");
        check(places[row], (double)best, "another class");
        for (size_t at = 0; at < classes; at++) {
            double wanted = smoothing / (double)classes + (at == label ? 1 - smoothing : 0);
            check(of_scores[row * classes + at], (exp(begin[at]) / total - wanted) * of_losses[row], "another gradient");
        }
    }
    free(all), free(labels), free(of_losses), free(losses), free(spreads), free(of_scores), free(places);
}

static int try_round(long round) {
    try_one(drawn(20), 1 + drawn(round % 10 ? 100 : 5000));
    return 1;
}

int main(int count, char **arguments) { return run_rounds(count, arguments, try_round); }
