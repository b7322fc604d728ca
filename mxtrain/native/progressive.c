/* The blocks of progressive scans: first the upper bits of some coefficients, in later scans one bit more at a time. */

#include "coefficients.h"

/* The next code of a scan of AC coefficients: the zeros before a number, and the number; or `ending` blocks, this one
   among them, that have none. */
typedef struct {
    unsigned zeros, ending;
    int number;
} Run;

INLINE int next_bits(Bits *from, int count) {
    int bits = (int)(from->bits >> (64 - count));
    step_on(from, (unsigned)count);
    return bits;
}

INLINE int next_run(const Codes *codes, Bits *from, Run *run) {
    refill(from);
    uint32_t found = look_up(codes, from);
    if (found & IS_RESOLVED) {
        run->zeros = found >> 8 & 255, run->number = (int16_t)(found >> 16);
        run->ending = run->zeros == BEHIND_BLOCK;
        step_on(from, found & LENGTH);
        return OK;
    }
    int symbol = next_symbol(codes, found, from), size = symbol & 15, zeros = symbol >> 4;
    if (symbol < 0) return NOT_OURS;
    run->zeros = (unsigned)zeros, run->ending = 0, run->number = 0;
    if (size) run->number = next_number(from, size);
    else if (zeros < 15) run->ending = (1u << zeros) + (zeros ? (unsigned)next_bits(from, zeros) : 0);
    return OK;
}

static int first_bits(Scan *scan, Bits *from, int16_t *block) {
    Run run;
    for (unsigned place = (unsigned)scan->first; place <= (unsigned)scan->last; place++) {
        if (next_run(scan->ac[0], from, &run)) return NOT_OURS;
        if (run.ending) {
            scan->ending = run.ending - 1;
            return OK;
        }
        place += run.zeros;
        if (place > (unsigned)scan->last) return NOT_OURS;
        block[place] = (int16_t)((uint32_t)run.number << scan->low);
    }
    return OK;
}

/* One more bit of each coefficient that is not zero, up to the one before which `zeros` zeros are left over. */
static unsigned refine(const Scan *scan, Bits *from, int16_t *block, unsigned place, unsigned zeros) {
    for (; place <= (unsigned)scan->last; place++) {
        if (!block[place]) {
            if (!zeros--) return place;
            continue;
        }
        refill(from);
        if (next_bits(from, 1)) block[place] = (int16_t)(block[place] + (block[place] < 0 ? -1 : 1) * (1 << scan->low));
    }
    return place;
}

static int further_bit(Scan *scan, Bits *from, int16_t *block) {
    Run run;
    unsigned place = (unsigned)scan->first;
    while (!scan->ending && place <= (unsigned)scan->last) {
        if (next_run(scan->ac[0], from, &run)) return NOT_OURS;
        scan->ending = run.ending;
        if (run.ending) break;
        if (run.number < -1 || run.number > 1) return NOT_OURS;
        place = refine(scan, from, block, place, run.zeros);
        if (place > (unsigned)scan->last) return NOT_OURS;
        block[place++] = (int16_t)(run.number * (1 << scan->low));
    }
    if (scan->ending) {
        refine(scan, from, block, place, 64);
        scan->ending--;
    }
    return OK;
}

int read_progressive(Scan *scan, int component, Bits *from, int16_t *block) {
    if (scan->first) {
        if (scan->high) return further_bit(scan, from, block);
        if (!scan->ending) return first_bits(scan, from, block);
        scan->ending--;
        return OK;
    }
    int difference;
    if (scan->high) {
        refill(from);
        block[0] = (int16_t)(block[0] | next_bits(from, 1) << scan->low);
        return OK;
    }
    if (read_dc(scan->dc[component], from, &difference)) return NOT_OURS;
    int sum = scan->predictions[component] + difference, value = sum * (1 << scan->low);
    if (value < INT16_MIN || value > INT16_MAX) return NOT_OURS;
    scan->predictions[component] = sum;
    block[0] = (int16_t)value;
    return OK;
}
