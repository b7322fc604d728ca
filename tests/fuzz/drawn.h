/* Random numbers and a comparison, for the programs that try operators in arrays as long as they have to be. */

#ifndef MXTRAIN_TESTS_DRAWN_H
#define MXTRAIN_TESTS_DRAWN_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state = 1;

static size_t drawn(size_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(state >> 33) % below;
}

/* An array of numbers from `least` on, of `steps` + 1 that lie `per_unit` to a unit. */
static float *drawn_numbers(size_t count, size_t steps, float per_unit, float least) {
    float *found = malloc(count * sizeof *found);
    for (size_t at = 0; at < count; at++) found[at] = (float)drawn(steps + 1) / per_unit + least;
    return found;
}

/* Try as many rounds as the first argument says, one without, and print how many; a round that returns 0 does not count. */
static int run_rounds(int count, char **arguments, int (*try_round)(long round)) {
    long num_rounds = count > 1 ? atol(arguments[1]) : 1;
    for (long round = 0; round < num_rounds; round += try_round(round)) continue;
    printf("%ld\n", num_rounds);
    return 0;
}

/* End the program unless a number is as near as that. */
static void check_within(double found, double expected, double most, const char *what) {
    if (fabs(found - expected) < most) return;
    fprintf(stderr, "%s: %g in the place of %g\n", what, found, expected);
    exit(1);
}

#endif
