/* Random numbers as MXNet's operators draw them on a CPU. */

#ifndef MXTRAIN_RANDOM_H
#define MXTRAIN_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#define NUM_STREAMS 1024
#define STATE_WORDS 624

/* One Mersenne twister (MT19937), and how many of its words are used. */
typedef struct {
    uint32_t words[STATE_WORDS];
    uint32_t num_used;
} Stream;

/* Begin NUM_STREAMS streams, the first with `seed`, each other with the number after that of the one before. */
void begin_streams(Stream *streams, uint32_t seed);

/* `count` float32 numbers, each stream's part of them side by side, as std::uniform_real_distribution makes them,
   from `low` on, below `high`. */
void draw_uniform(Stream *streams, float low, float high, float *out, size_t count);

/* As std::normal_distribution makes them where each number has one of its own, so that the second number of each pair
   is lost. */
void draw_normal(Stream *streams, float mean, float deviation, float *out, size_t count);

#endif
