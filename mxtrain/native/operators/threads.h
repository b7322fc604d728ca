/* What operators share of threads: how many there are, and the scratch memory of each. */

#ifndef MXTRAIN_THREADS_H
#define MXTRAIN_THREADS_H

#include <stddef.h>

#ifdef _OPENMP
#include <omp.h>
#else
#define omp_get_thread_num() 0
#define omp_get_num_threads() 1
#endif

#define AT_ONCE 8192 /* numbers of a thread at least, where it reads each but once or twice */

/* Return how many threads so many numbers are for. */
static inline int threads_for(size_t numbers, int num_threads) {
    size_t most = numbers / AT_ONCE + 1;
    return most < (size_t)num_threads ? (int)most : num_threads;
}

/* Have `arrays` of these sizes lie one behind the other in memory, or nowhere where that is NULL; returns their numbers. */
static inline size_t cut_memory(float *memory, const size_t *sizes, float **const *arrays, size_t count) {
    size_t total = 0;
    for (size_t at = 0; at < count; at++) {
        *arrays[at] = memory ? memory + total : NULL;
        total += sizes[at];
    }
    return total;
}

#endif
