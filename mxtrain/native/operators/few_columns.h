/* Products with the few columns that are left behind whole panels, such as one of the 49 of a plane of 7 x 7. */

#ifndef MXTRAIN_FEW_COLUMNS_H
#define MXTRAIN_FEW_COLUMNS_H

#include "norm.h"
#include "product.h"

#define FEW 4 /* columns at most */

/* Return how many columns behind whole panels are so few; 0 where there are more, or none. */
static inline size_t few_behind(size_t columns) { return columns % PANEL <= FEW ? columns % PANEL : 0; }

/* Write the activations of the products of `blocks` blocks of ROWS rows, whose weights lie as `fold_norm` writes them, with
   columns that begin side by side and have `step` numbers from a row to the next: FEW numbers of each row. The bits are
   those that columns of panels have. */
void multiply_few(Activation activation, const float *weights, size_t depth, size_t blocks, const float *columns, size_t step,
                  size_t count, float *out);

#endif
