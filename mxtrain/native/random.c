/* Random numbers as MXNet draws them: 1024 Mersenne twisters, each for its part of an array, in loops that compilers
   turn into vectors. libstdc++'s distributions, which MXNet calls, do the same number by number, three times slower. */

#include "random.h"

#include <math.h>

#define MIDDLE 397 /* of MT19937, as are the masks, the shifts and 1812433253 */
#define LEAST_PART 64 /* numbers of an array that a stream draws, at least */
#define BLOCK (STATE_WORDS / 2)

void begin_streams(Stream *streams, uint32_t seed) {
    for (uint32_t each = 0; each < NUM_STREAMS; each++) {
        uint32_t *words = streams[each].words, word = seed + each;
        for (uint32_t place = 0; place < STATE_WORDS; place++) {
            if (place) word = 1812433253u * (word ^ (word >> 30)) + place;
            words[place] = word;
        }
        streams[each].num_used = STATE_WORDS;
    }
}

static inline uint32_t twisted(uint32_t word, uint32_t next, uint32_t far) {
    uint32_t joined = (word & 0x80000000u) | (next & 0x7fffffffu);
    return far ^ (joined >> 1) ^ (-(next & 1u) & 0x9908b0dfu);
}

static void renew(Stream *stream) {
    uint32_t *words = stream->words;
    int place = 0;
    for (; place < STATE_WORDS - MIDDLE; place++)
        words[place] = twisted(words[place], words[place + 1], words[place + MIDDLE]);
    for (; place < STATE_WORDS - 1; place++)
        words[place] = twisted(words[place], words[place + 1], words[place + MIDDLE - STATE_WORDS]);
    words[place] = twisted(words[place], words[0], words[MIDDLE - 1]);
    stream->num_used = 0;
}

/* A word as a number from 0 on, below 1: the nearest float32, but never 1. */
static inline float fraction(uint32_t word) {
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680u;
    word ^= (word << 15) & 0xefc60000u;
    word ^= word >> 18;
    float whole = (float)(int32_t)(word >> 16) * 65536.0f + (float)(int32_t)(word & 0xffffu); /* rounded once */
    float found = whole * 0x1p-32f;
    return found < 1.0f ? found : 0x1.fffffep-1f;
}

static inline float next_fraction(Stream *stream) {
    if (stream->num_used == STATE_WORDS) renew(stream);
    return fraction(stream->words[stream->num_used++]);
}

static void uniform_part(Stream *stream, float low, float high, float *restrict out, size_t count) {
    while (count) {
        if (stream->num_used == STATE_WORDS) renew(stream);
        size_t left = STATE_WORDS - stream->num_used, now = count < left ? count : left;
        const uint32_t *words = stream->words + stream->num_used;
        for (size_t i = 0; i < now; i++) out[i] = low + (high - low) * fraction(words[i]);
        stream->num_used += (uint32_t)now;
        out += now;
        count -= now;
    }
}

/* Marsaglia's polar method: points of a square, but for those outside of its circle. */
static void normal_part(Stream *stream, float mean, float deviation, float *restrict out, size_t count) {
    float across[BLOCK], squared[BLOCK], y[BLOCK + 1], square[BLOCK + 1];
    while (count) {
        if (stream->num_used == STATE_WORDS) renew(stream);
        size_t points = (STATE_WORDS - stream->num_used) / 2, kept = 0, tried = 0;
        size_t words_of_point = points ? 2 : 0;
        if (points) {
            const uint32_t *words = stream->words + stream->num_used;
            for (size_t i = 0; i < points; i++) {
                float x = 2.0f * fraction(words[2 * i]) - 1.0f;
                across[i] = 2.0f * fraction(words[2 * i + 1]) - 1.0f;
                squared[i] = x * x + across[i] * across[i];
            }
        } else { /* a point of the last word and of the first of the next */
            float x = 2.0f * next_fraction(stream) - 1.0f;
            across[0] = 2.0f * next_fraction(stream) - 1.0f;
            squared[0] = x * x + across[0] * across[0];
            points = 1;
        }
        for (; tried < points && kept < count; tried++) {
            y[kept] = across[tried];
            square[kept] = squared[tried];
            kept += (squared[tried] <= 1.0f) & (squared[tried] != 0.0f);
        }
        stream->num_used += (uint32_t)(words_of_point * tried); /* `next_fraction` has counted its own */
        for (size_t i = 0; i < kept; i++) across[i] = logf(square[i]);
        for (size_t i = 0; i < kept; i++)
            out[i] = y[i] * sqrtf(-2.0f * across[i] / square[i]) * deviation + mean;
        out += kept;
        count -= kept;
    }
}

/* A stream's part is as long as MXNet makes it. */
static size_t part_of(size_t count) {
    size_t parts = (count + LEAST_PART - 1) / LEAST_PART;
    if (parts > NUM_STREAMS) parts = NUM_STREAMS;
    return parts ? (count + parts - 1) / parts : 1;
}

void draw_uniform(Stream *streams, float low, float high, float *out, size_t count) {
    size_t part = part_of(count);
    for (size_t first = 0; first < count; first += part)
        uniform_part(streams++, low, high, out + first, count - first < part ? count - first : part);
}

void draw_normal(Stream *streams, float mean, float deviation, float *out, size_t count) {
    size_t part = part_of(count);
    for (size_t first = 0; first < count; first += part)
        normal_part(streams++, mean, deviation, out + first, count - first < part ? count - first : part);
}
