/* The face that MXNet 1.9.1 looks for in a library of operators (`mx.library.load`): its `lib_api.h`, in C.

   MXNet hands what it was given about an operator, here its description, back to the functions below. Operators compute
   in float32, on CPUs, in arrays that lie in plain order. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"

#define EXPORTED __attribute__((visibility("default")))
#define DONE 1
#define FAILED 0
#define FLOAT32 0
#define VERSION 11 /* of lib_api.h */

typedef void *(*Allocate)(void *allocator, int num_bytes);

/* An array's sizes in MXNet's two forms. */
typedef struct {
    const int64_t *sizes;
    int count;
} Shape;

/* The attributes of a node, as text. */
typedef struct {
    const char *const *keys, *const *values;
    int count;
} Attributes;

/* The arrays of a call, and scratch memory of MXNet's. */
typedef struct {
    Attributes attributes;
    const Shape *inputs, *outputs;
    void **in, **out;
    Allocate allocate;
    void *allocator;
} Call;

typedef struct {
    const char *name;
    int num_inputs;
    /* The sizes of the output, as many as it returns; 0 where inputs do not fit. */
    int (*shape)(Attributes attributes, const Shape *inputs, int64_t *sizes);
    int (*forward)(const Call *call);
    int (*backward)(const Call *call);
} Operator;

static int num_threads = 1;

/* Set how many threads an operator computes with; returns how many it did. */
EXPORTED int mxtrain_set_threads(int count) {
    int before = num_threads;
    num_threads = count > 0 ? count : 1;
    return before;
}

static long number_of(Attributes attributes, const char *key) {
    for (int at = 0; at < attributes.count; at++)
        if (!strcmp(attributes.keys[at], key)) return strtol(attributes.values[at], NULL, 10);
    return 0;
}

/* Attention: of projections (length, batch, heads x 3 x width), and what is added to scores. */
static int attention_shape(Attributes attributes, const Shape *inputs, int64_t *sizes) {
    long heads = number_of(attributes, "heads");
    const int64_t *projected = inputs[0].sizes, *added = inputs[1].sizes;
    if (heads < 1 || inputs[0].count != 3 || inputs[1].count != 3 || projected[2] % (3 * heads) || !projected[2] ||
        (added[0] != 1 && added[0] != projected[1] * heads) || added[1] != projected[0] || added[2] != projected[0])
        return 0;
    sizes[0] = projected[0], sizes[1] = projected[1], sizes[2] = projected[2] / 3;
    return 3;
}

static Attention attention_of(const Call *call, int first) {
    const int64_t *sizes = call->inputs[first].sizes;
    size_t heads = (size_t)number_of(call->attributes, "heads");
    Attention found = {(size_t)sizes[0],     (size_t)sizes[1],
                       heads,                (size_t)sizes[2] / 3 / heads,
                       (size_t)call->inputs[first + 1].sizes[0], call->in[first], call->in[first + 1]};
    return found;
}

/* Scratch memory, and for how many threads: no more than there are heads, nor than MXNet can give memory for. */
static float *attention_memory(const Call *call, const Attention *attention, int *threads) {
    size_t size = attention_scratch(attention) * sizeof(float), most = attention->batch * attention->heads;
    if (most > INT32_MAX / size) most = INT32_MAX / size;
    *threads = most < (size_t)num_threads ? (int)most : num_threads;
    return *threads ? call->allocate(call->allocator, (int)(size * (size_t)*threads)) : NULL;
}

static int attention_forward(const Call *call) {
    Attention attention = attention_of(call, 0);
    int threads;
    float *scratch = attention_memory(call, &attention, &threads);
    if (!scratch) return FAILED;
    attend(&attention, call->out[0], scratch, threads);
    return DONE;
}

/* Of `added` there is no gradient: a graph asks for none (`rewrites/attentions.py`). */
static int attention_backward(const Call *call) {
    Attention attention = attention_of(call, 1);
    int threads;
    float *scratch = attention_memory(call, &attention, &threads);
    if (!scratch) return FAILED;
    attend_backward(&attention, call->in[0], call->out[0], scratch, threads);
    return DONE;
}

static Operator operators[] = {
    {"mxtrain_attention", 2, attention_shape, attention_forward, attention_backward},
};

#define NUM_OPERATORS ((int)(sizeof operators / sizeof *operators))

/* MXNet asks for a pair of pointers for each device. Backward is told from forward by where the pointer points. */
static const char *devices[] = {"cpu"};
static void *forwards[NUM_OPERATORS][1], *backwards[NUM_OPERATORS][1];

EXPORTED int initialize(int version) { return version >= 10900 && version < 20000 ? DONE : FAILED; }
EXPORTED int _opVersion(void) { return VERSION; }
EXPORTED int _opRegSize(void) { return NUM_OPERATORS; }

EXPORTED void _opRegGet(int at, const char **name, int *is_subgraph, const char ***forward_devices, void ***forward,
                        int *forward_count, const char ***backward_devices, void ***backward, int *backward_count,
                        const char ***state_devices, void ***state, int *state_count, void **parse, void **type,
                        void **storage_type, void **shape, void **mutate) {
    Operator *one = &operators[at];
    forwards[at][0] = &one->forward, backwards[at][0] = &one->backward;
    *name = one->name, *is_subgraph = 0;
    *forward_devices = *backward_devices = devices, *state_devices = NULL;
    *forward = forwards[at], *backward = backwards[at], *state = NULL;
    *forward_count = *backward_count = 1, *state_count = 0;
    *parse = *type = *shape = one, *storage_type = *mutate = NULL;
}

EXPORTED void _opCallFree(void *memory) { free(memory); }

EXPORTED int _opCallParseAttrs(void *one, const char *const *keys, const char *const *values, int count, int *num_in,
                               int *num_out) {
    (void)keys, (void)values, (void)count;
    *num_in = ((Operator *)one)->num_inputs, *num_out = 1;
    return DONE;
}

static unsigned **copied(unsigned **shapes, const int *counts, int num, int **copied_counts) {
    unsigned **all = malloc((size_t)num * sizeof *all);
    *copied_counts = malloc((size_t)num * sizeof **copied_counts);
    for (int at = 0; at < num; at++) {
        size_t size = (size_t)counts[at] * sizeof **all;
        (*copied_counts)[at] = counts[at];
        all[at] = memcpy(malloc(size + 1), shapes[at], size);
    }
    return all;
}

#define MOST_INPUTS 8
#define MOST_SIZES 8

EXPORTED int _opCallInferShape(void *one, const char *const *keys, const char *const *values, int count,
                               unsigned **in_shapes, int *in_counts, int num_in, unsigned ***known_shapes,
                               int **known_counts, unsigned ***out_shapes, int **out_counts, int num_out) {
    Attributes attributes = {keys, values, count};
    int64_t sizes[MOST_INPUTS][MOST_SIZES], of_output[MOST_SIZES];
    unsigned output[MOST_SIZES], *outputs[] = {output};
    Shape inputs[MOST_INPUTS];
    if (num_in > MOST_INPUTS || num_out != 1) return FAILED;
    for (int at = 0; at < num_in; at++) {
        if (in_counts[at] > MOST_SIZES) return FAILED;
        for (int place = 0; place < in_counts[at]; place++) sizes[at][place] = in_shapes[at][place];
        inputs[at].sizes = sizes[at], inputs[at].count = in_counts[at];
    }
    int out_count = ((Operator *)one)->shape(attributes, inputs, of_output);
    if (!out_count) return FAILED;
    for (int place = 0; place < out_count; place++) output[place] = (unsigned)of_output[place];
    *known_shapes = copied(in_shapes, in_counts, num_in, known_counts);
    *out_shapes = copied(outputs, &out_count, 1, out_counts);
    return DONE;
}

EXPORTED int _opCallInferType(void *one, const char *const *keys, const char *const *values, int count, int *in_types,
                              int num_in, int *out_types, int num_out) {
    (void)one, (void)keys, (void)values, (void)count;
    for (int at = 0; at < num_in; at++) {
        if (in_types[at] > FLOAT32) return FAILED;
        in_types[at] = FLOAT32;
    }
    for (int at = 0; at < num_out; at++) out_types[at] = FLOAT32;
    return DONE;
}

EXPORTED int _opCallFCompute(void *compute, const char *const *keys, const char *const *values, int count,
                             const int64_t **in_shapes, int *in_counts, void **in, int *in_types, size_t *in_ids,
                             const char **in_devices, int *in_device_numbers, int num_in, const int64_t **out_shapes,
                             int *out_counts, void **out, int *out_types, size_t *out_ids, const char **out_devices,
                             int *out_device_numbers, int num_out, Allocate allocate, void *allocator) {
    (void)in_types, (void)in_ids, (void)in_devices, (void)in_device_numbers;
    (void)out_types, (void)out_ids, (void)out_devices, (void)out_device_numbers;
    Shape inputs[2 * MOST_INPUTS], outputs[MOST_INPUTS];
    if (num_in > 2 * MOST_INPUTS || num_out > MOST_INPUTS) return FAILED;
    for (int at = 0; at < num_in; at++) inputs[at].sizes = in_shapes[at], inputs[at].count = in_counts[at];
    for (int at = 0; at < num_out; at++) outputs[at].sizes = out_shapes[at], outputs[at].count = out_counts[at];
    Call call = {{keys, values, count}, inputs, outputs, in, out, allocate, allocator};
    return (*(int (**)(const Call *))compute)(&call);
}

/* What operators here do without. */
EXPORTED int _opCallInferSType(void) { return FAILED; }
EXPORTED int _opCallMutateInputs(void) { return FAILED; }
EXPORTED int _opCallCreateOpState(void) { return FAILED; }
EXPORTED void _opCallDestroyOpState(void *state) { (void)state; }
EXPORTED int _opCallFStatefulCompute(void) { return FAILED; }
EXPORTED int _partRegSize(void) { return 0; }
EXPORTED int _partRegGetCount(void) { return 0; }
EXPORTED void _partRegGet(void) {}
EXPORTED int _partCallSupportedOps(void) { return FAILED; }
EXPORTED int _partCallCreateSelector(void) { return FAILED; }
EXPORTED void _partCallSelect(void) {}
EXPORTED void _partCallSelectInput(void) {}
EXPORTED void _partCallSelectOutput(void) {}
EXPORTED void _partCallFilter(void) {}
EXPORTED void _partCallReset(void) {}
EXPORTED int _partCallReviewSubgraph(void) { return FAILED; }
EXPORTED int _passRegSize(void) { return 0; }
EXPORTED void _passRegGet(void) {}
EXPORTED int _passCallGraphPass(void) { return FAILED; }
EXPORTED int _msgSize(void) { return 0; }
EXPORTED void _msgGet(void) {}
