/* A row is read from memory once in each pass: it is summed up, or written out as a gradient, while it lies in the cache. */

#include "tokens/scores.h"

#include <math.h>

#include "threads.h"
#include "vectors.h"

#define BLOCK 1024   /* numbers that are added up in float32 */

static size_t label_of(const Scores *scores, size_t row) {
    float label = scores->labels[row];
    if (!(label >= 1)) return 0;
    return label < (float)scores->classes ? (size_t)label : scores->classes - 1;
}

/* Return the largest number of a row; one that is no number may be passed over. */
FMA static float largest_of(const float *row, size_t classes) {
    __m256 first = _mm256_set1_ps(-INFINITY), second = first;
    size_t at = 0;
    for (; at + 16 <= classes; at += 16) {
        first = _mm256_max_ps(_mm256_loadu_ps(row + at), first);
        second = _mm256_max_ps(_mm256_loadu_ps(row + at + 8), second);
    }
    for (; at < classes; at += 8)
        first = _mm256_max_ps(load_or(row + at, classes - at, first), first);
    float all[8], largest = -INFINITY;
    _mm256_storeu_ps(all, _mm256_max_ps(first, second));
    for (at = 0; at < 8; at++)
        if (all[at] > largest) largest = all[at];
    return largest;
}

/* The sums of a row's numbers less the largest, and of the exponentials of these. */
typedef struct {
    double less, exponentials;
} Sums;

FMA static Sums sums_of(const float *row, size_t classes, float largest) {
    Sums sums = {0, 0};
    __m256 most = _mm256_set1_ps(largest);
    for (size_t begin = 0; begin < classes; begin += BLOCK) {
        size_t end = classes - begin < BLOCK ? classes : begin + BLOCK, at = begin;
        __m256 of_less = _mm256_setzero_ps(), of_all = of_less;
        for (; at + 8 <= end; at += 8) {
            __m256 less = _mm256_sub_ps(_mm256_loadu_ps(row + at), most);
            of_less = _mm256_add_ps(of_less, less);
            of_all = _mm256_add_ps(of_all, exponential_or_nan(less));
        }
        if (at < end) {
            __m256 there = _mm256_castsi256_ps(first_of_eight(end - at));
            __m256 less = _mm256_sub_ps(load(row + at, end - at), most);
            of_less = _mm256_add_ps(of_less, _mm256_and_ps(less, there));
            of_all = _mm256_add_ps(of_all, _mm256_and_ps(exponential_or_nan(less), there));
        }
        sums.less += sum_of(of_less), sums.exponentials += sum_of(of_all);
    }
    return sums;
}

void cross_entropy(const Scores *scores, float *losses, float *spreads, int num_threads) {
    size_t classes = scores->classes;
    float smoothing = scores->smoothing;
#pragma omp parallel for num_threads(threads_for(scores->rows * scores->classes, num_threads)) schedule(static)
    for (size_t row = 0; row < scores->rows; row++) {
        const float *begin = scores->scores + row * classes;
        float largest = largest_of(begin, classes);
        Sums sums = sums_of(begin, classes, largest);
        double total = log(sums.exponentials), own = (double)begin[label_of(scores, row)] - largest;
        /* Without smoothing a score without bounds is not for all. */
        double all = smoothing != 0 ? smoothing * (sums.less / (double)classes) : 0;
        losses[row] = (float)(total - (1 - (double)smoothing) * own - all);
        spreads[2 * row] = largest;
        spreads[2 * row + 1] = (float)total;
    }
}

FMA static void unscore_row(const float *row, size_t classes, const float *spread, float of_loss, float of_all,
                            float *of_row) {
    __m256 most = _mm256_set1_ps(spread[0]), total = _mm256_set1_ps(spread[1]);
    __m256 factor = _mm256_set1_ps(of_loss), share = _mm256_set1_ps(of_all);
    for (size_t at = 0; at < classes; at += 8) {
        __m256 less = _mm256_sub_ps(_mm256_sub_ps(load(row + at, classes - at), most), total);
        __m256 apart = _mm256_sub_ps(exponential_or_nan(less), share);
        store(of_row + at, classes - at, _mm256_mul_ps(apart, factor));
    }
}

void cross_entropy_backward(const Scores *scores, const float *of_losses, const float *spreads, float *of_scores,
                            int num_threads) {
    size_t classes = scores->classes;
    float of_all = scores->smoothing / (float)classes;
#pragma omp parallel for num_threads(threads_for(scores->rows * scores->classes, num_threads)) schedule(static)
    for (size_t row = 0; row < scores->rows; row++) {
        float *of_row = of_scores + row * classes;
        unscore_row(scores->scores + row * classes, classes, spreads + 2 * row, of_losses[row], of_all, of_row);
        of_row[label_of(scores, row)] -= (1 - scores->smoothing) * of_losses[row];
    }
}

FMA static size_t likeliest_of(const float *row, size_t classes) {
    __m256 most = _mm256_set1_ps(-INFINITY);
    __m256i best = _mm256_setzero_si256(), places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (size_t at = 0; at < classes; at += 8) {
        __m256 each = load_or(row + at, classes - at, most), is_more = _mm256_cmp_ps(each, most, _CMP_GT_OQ);
        most = _mm256_blendv_ps(most, each, is_more);
        best = _mm256_blendv_epi8(best, places, _mm256_castps_si256(is_more));
        places = _mm256_add_epi32(places, _mm256_set1_epi32(8));
    }
    float all[8];
    int32_t of_all[8];
    _mm256_storeu_ps(all, most);
    _mm256_storeu_si256((__m256i *)of_all, best);
    size_t found = 0;
    for (size_t at = 1; at < 8; at++)
        if (all[at] > all[found] || (all[at] == all[found] && of_all[at] < of_all[found])) found = at;
    return (size_t)of_all[found];
}

void find_likeliest(const Scores *scores, float *places, int num_threads) {
#pragma omp parallel for num_threads(threads_for(scores->rows * scores->classes, num_threads)) schedule(static)
    for (size_t row = 0; row < scores->rows; row++)
        places[row] = (float)likeliest_of(scores->scores + row * scores->classes, scores->classes);
}
