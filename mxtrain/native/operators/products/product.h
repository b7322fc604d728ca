/* Products of small matrices in float32, one thread each: see mxtrain/native/attention.c. */

#ifndef MXTRAIN_PRODUCT_H
#define MXTRAIN_PRODUCT_H

#include <stddef.h>

#define PANEL 16 /* columns of a panel */
#define ROWS 6   /* of a block that stays in registers */

/* A matrix by its numbers from one row, and from one column, to the next. */
typedef struct {
    const float *numbers;
    size_t row, column;
} Matrix;

/* The numbers of the panels of a matrix: its columns, in sixteens, filled up with zeros. */
static inline size_t num_panels(size_t columns) { return (columns + PANEL - 1) / PANEL; }
static inline size_t panels_size(size_t rows, size_t columns) { return rows * num_panels(columns) * PANEL; }

/* Put the columns of a matrix, (rows, columns), into panels, each of which lies row by row. */
void put_into_panels(Matrix from, size_t rows, size_t columns, float *panels);

/* Rows in panels: of ROWS or fewer, as many in each as in the others, but for one. */
static inline size_t row_panels(size_t rows) { return (rows + ROWS - 1) / ROWS; }
static inline size_t first_of_panel(size_t rows, size_t panel) { return rows ? panel * rows / row_panels(rows) : 0; }

/* Put the rows of a matrix, (rows, depth), into panels, each column by column, with space for ROWS in each column. */
void put_rows_into_panels(Matrix from, size_t rows, size_t depth, float *panels);

/* Write or add the product of `left` (rows, depth) and of a matrix in panels (depth, columns), of which only `depth` rows
   from `first_row` of `panel_rows` are used. `out` has `stride` numbers from a row to the next. */
typedef enum { WRITE, ADD } Into;
void multiply(Matrix left, const float *panels, size_t panel_rows, size_t first_row, size_t rows, size_t depth,
              size_t columns, float *out, size_t stride, Into into);

/* The same, where the rows of the left matrix lie in panels, each column by column. */
void multiply_panels(const float *left, const float *panels, size_t panel_rows, size_t first_row, size_t rows, size_t depth,
                     size_t columns, float *out, size_t stride, Into into);

#endif
