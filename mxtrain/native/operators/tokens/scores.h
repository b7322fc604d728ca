/* Rows of scores, one for each class: their cross-entropy with a class, and which class is the likeliest. */

#ifndef MXTRAIN_SCORES_H
#define MXTRAIN_SCORES_H

#include <stddef.h>

typedef struct {
    size_t rows, classes;
    const float *scores, *labels; /* of each row a class; one beyond them is the nearest */
    float smoothing;              /* how much of a label is of all classes */
} Scores;

/* Write the cross-entropy of each row, and what its backward pass needs: the largest score, and the logarithm of the sum
   of the exponentials of all others less that one. */
void cross_entropy(const Scores *scores, float *losses, float *spreads, int num_threads);

/* Write the gradients of the scores, where `of_losses` are those of the losses. */
void cross_entropy_backward(const Scores *scores, const float *of_losses, const float *spreads, float *of_scores,
                            int num_threads);

/* Write the place of each row's largest score, the first of several; of rows without a number 0. */
void find_likeliest(const Scores *scores, float *places, int num_threads);

#endif
