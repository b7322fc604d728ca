/* Products of places, which lie anywhere, and a panel of weights, with what follows them. */

#ifndef MXTRAIN_PLACES_H
#define MXTRAIN_PLACES_H

#include "channels/norm.h"
#include "products/product.h"

/* `count` places: where each of `taps` taps of a place reads `depth` numbers, where the outputs of a place go, and what is
   added to them; NULL: nothing. */
typedef struct {
    size_t count, taps, depth;
    const float **rows;
    float **to;
    const float **added;
} Places;

/* Return the places from `first` on. */
static inline Places places_from(Places places, size_t first, size_t count) {
    return (Places){count, places.taps, places.depth, places.rows + first * places.taps, places.to + first,
                    places.added ? places.added + first : NULL};
}

/* Write the activations of outputs from `column` on, of which there are `outputs`: a panel, or fewer. The panel begins
   with what is added to all places; weights go on from a tap to the next. */
void multiply_places(Activation activation, Places places, const float *panel, size_t column, size_t outputs);

#endif
