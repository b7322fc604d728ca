/* The face that MXNet 1.9.1 looks for in a library of operators (`mx.library.load`): its `lib_api.h`, in C.

   MXNet hands what it was given about an operator, here its description, back to the functions below. Operators compute
   in float32, on CPUs, in arrays that lie in plain order. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "operator.h"

#define FLOAT32 0
#define UNKNOWN UINT32_MAX /* a size that MXNet does not know yet */
#define VERSION 11 /* of lib_api.h */

int no_backward(const Call *call) {
    (void)call;
    return FAILED;
}

const char *text(Attributes attributes, const char *key) {
    for (int at = 0; at < attributes.count; at++)
        if (!strcmp(attributes.keys[at], key)) return attributes.values[at];
    return "";
}

long whole_number(Attributes attributes, const char *key) { return strtol(text(attributes, key), NULL, 10); }

float number(Attributes attributes, const char *key, float otherwise) {
    const char *value = text(attributes, key);
    return *value ? strtof(value, NULL) : otherwise;
}

int has_sizes(FoundShape *input, int count, const int64_t *sizes) {
    if (!input->count) memset(input->sizes, 0, sizeof input->sizes), input->count = count;
    if (input->count != count) return 0;
    for (int at = 0; at < count; at++) {
        if (!input->sizes[at]) input->sizes[at] = sizes[at];
        if (input->sizes[at] != sizes[at]) return 0;
    }
    return 1;
}

void *scratch_memory(const Call *call, size_t bytes_of_thread, size_t most, int *threads) {
    if (most > INT32_MAX / bytes_of_thread) most = INT32_MAX / bytes_of_thread;
    *threads = most < (size_t)call->num_threads ? (int)most : call->num_threads;
    return *threads ? call->allocate(call->allocator, (int)(bytes_of_thread * (size_t)*threads)) : NULL;
}

static const Operator *const operators[] = {
    &attention_operator,
    &dropping_attention_operator,
    &norm_operator,
    &depthwise_norm_operator,
    &norm_depthwise_norm_operator,
    &layer_norm_operator,
    &cross_entropy_operator,
    &likeliest_operator,
    &reduction_operator,
    &dense_operator,
    &separable_operator,
    &gated_separable_operator,
    &inverted_operator,
    &gated_inverted_operator,
    &first_separable_operator,
    &channel_means_operator,
    &first_convolution_operator,
    &convolution_weights_operator,
    &biased_weights_operator,
    &normed_weights_operator,
    &biased_normed_weights_operator,
    &convolution_operator,
    &convolution_sum_operator,
    &lstm_weights_operator,
    &lstm_operator,
    &packed_weights_operator,
    &packed_dense_operator,
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
    const Operator *one = operators[at];
    forwards[at][0] = (void *)&one->forward, backwards[at][0] = (void *)&one->backward;
    *name = one->name, *is_subgraph = 0;
    *forward_devices = *backward_devices = devices, *state_devices = NULL;
    *forward = forwards[at], *backward = backwards[at], *state = NULL;
    *forward_count = 1, *backward_count = one->backward != NULL, *state_count = 0;
    *parse = *type = *shape = (void *)one, *storage_type = NULL;
    *mutate = one->num_moved ? (void *)one : NULL;
}

EXPORTED void _opCallFree(void *memory) { free(memory); }

EXPORTED int _opCallParseAttrs(void *one, const char *const *keys, const char *const *values, int count, int *num_in,
                               int *num_out) {
    (void)keys, (void)values, (void)count;
    *num_in = ((const Operator *)one)->num_inputs, *num_out = ((const Operator *)one)->num_outputs;
    return DONE;
}

static unsigned **copied(const FoundShape *shapes, int num, int **counts) {
    unsigned **all = malloc((size_t)num * sizeof *all);
    *counts = malloc((size_t)num * sizeof **counts);
    for (int at = 0; at < num; at++) {
        (*counts)[at] = shapes[at].count;
        all[at] = malloc(MOST_SIZES * sizeof **all);
        for (int place = 0; place < shapes[at].count; place++) all[at][place] = (unsigned)shapes[at].sizes[place];
    }
    return all;
}

EXPORTED int _opCallInferShape(void *one, const char *const *keys, const char *const *values, int count,
                               unsigned **in_shapes, int *in_counts, int num_in, unsigned ***known_shapes,
                               int **known_counts, unsigned ***out_shapes, int **out_counts, int num_out) {
    FoundShape inputs[MOST_ARRAYS], outputs[MOST_ARRAYS];
    if (num_in > MOST_ARRAYS || num_out > MOST_ARRAYS) return FAILED;
    for (int at = 0; at < num_in; at++) {
        if (in_counts[at] > MOST_SIZES) return FAILED;
        inputs[at].count = in_counts[at] > 0 ? in_counts[at] : 0;
        for (int place = 0; place < inputs[at].count; place++)
            inputs[at].sizes[place] = in_shapes[at][place] == UNKNOWN ? 0 : in_shapes[at][place];
    }
    Attributes attributes = {keys, values, count};
    if (!((const Operator *)one)->shape(attributes, inputs, outputs)) return FAILED;
    *known_shapes = copied(inputs, num_in, known_counts);
    *out_shapes = copied(outputs, num_out, out_counts);
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
    Shape inputs[MOST_ARRAYS], outputs[MOST_ARRAYS];
    if (num_in > MOST_ARRAYS || num_out > MOST_ARRAYS) return FAILED;
    for (int at = 0; at < num_in; at++) inputs[at].sizes = in_shapes[at], inputs[at].count = in_counts[at];
    for (int at = 0; at < num_out; at++) outputs[at].sizes = out_shapes[at], outputs[at].count = out_counts[at];
    Call call = {{keys, values, count}, inputs, outputs, in, out, allocate, allocator, num_threads};
    return (*(int (**)(const Call *))compute)(&call);
}

EXPORTED int _opCallMutateInputs(void *one, const char *const *keys, const char *const *values, int count,
                                 int **places, int *num_places) {
    (void)keys, (void)values, (void)count;
    const Operator *moving = one;
    *places = malloc((size_t)moving->num_moved * sizeof **places);
    for (int at = 0; at < moving->num_moved; at++) (*places)[at] = moving->moved[at];
    *num_places = moving->num_moved;
    return DONE;
}

/* What operators here do without. */
EXPORTED int _opCallInferSType(void) { return FAILED; }
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
