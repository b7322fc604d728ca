/* The symbols of a scan, listed and counted before there are codes for them. */

#ifndef MXTRAIN_TOKENS_H
#define MXTRAIN_TOKENS_H

#include "coefficients.h"

/* A symbol and the bits behind it, to be written once the codes are known: the symbol (8 bits), its table (2 bits),
   whether a restart marker comes before it (1 bit), and in the upper half the bits, as many as the symbol's lower half
   says. */
typedef uint32_t Token;
enum { SYMBOL = 255, TABLE_AND_SYMBOL = 1023, IS_RESTART = 1024, IS_AC = 256, IS_CHROMA = 512 };

typedef struct {
    Token *tokens, *next;
    uint32_t frequencies[4][256]; /* [table] */
} Tokens;

/* Those of all coefficients; `to->tokens` has room for 64 of each block. */
void add_units(Tokens *to, const Coefficients *picture, int interval);

/* Their codes with restart markers, from `at` on; returns the end. `raw` takes the bytes of a stretch, and 8 more. */
uint8_t *put_tokens(const Tokens *tokens, const OptimalCodes codes[4], uint8_t *raw, uint8_t *at);

#endif
