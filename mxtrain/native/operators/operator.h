/* What an operator of ours is to MXNet: see mxnet_library.c, which lists them. Each `*_operator.c` is one's. */

#ifndef MXTRAIN_OPERATOR_H
#define MXTRAIN_OPERATOR_H

#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))
#define DONE 1
#define FAILED 0
#define MOST_SIZES 8
#define MOST_ARRAYS 32 /* inputs, outputs, or both for a backward pass */

typedef void *(*Allocate)(void *allocator, int num_bytes);

/* An array's sizes. */
typedef struct {
    const int64_t *sizes;
    int count;
} Shape;

/* An array's sizes while they are found out: of a variable none may be known yet, or some, which are 0. */
typedef struct {
    int64_t sizes[MOST_SIZES];
    int count;
} FoundShape;

/* The attributes of a node, as text. */
typedef struct {
    const char *const *keys, *const *values;
    int count;
} Attributes;

/* The arrays of a call, and scratch memory of MXNet's. A backward pass has as inputs the gradients of the outputs, then
   the inputs and the outputs of the forward pass, and as outputs the gradients of the inputs. */
typedef struct {
    Attributes attributes;
    const Shape *inputs, *outputs;
    void **in, **out;
    Allocate allocate;
    void *allocator;
    int num_threads;
} Call;

typedef struct {
    const char *name;
    int num_inputs, num_outputs;
    /* Fill in the outputs' sizes, and those of inputs that may be variables (`has_sizes`); returns whether inputs fit. */
    int (*shape)(Attributes attributes, FoundShape *inputs, FoundShape *outputs);
    int (*forward)(const Call *call);
    int (*backward)(const Call *call); /* NULL where there is no gradient */
    /* Inputs that are running statistics, which a backward pass moves. */
    int num_moved, moved[4];
} Operator;

extern const Operator attention_operator, dropping_attention_operator, layer_norm_operator, reduction_operator;
extern const Operator cross_entropy_operator, likeliest_operator, dense_operator;
extern const Operator separable_operator, gated_separable_operator, inverted_operator, gated_inverted_operator;
extern const Operator channel_means_operator, first_convolution_operator, first_separable_operator;
extern const Operator convolution_weights_operator, biased_weights_operator, normed_weights_operator;
extern const Operator biased_normed_weights_operator, convolution_operator, convolution_sum_operator;
extern const Operator lstm_weights_operator, lstm_operator, packed_weights_operator, packed_dense_operator;
extern const Operator norm_operator, depthwise_norm_operator, norm_depthwise_norm_operator;

extern int num_threads; /* that an operator computes with */

/* A backward pass for operators of nets that answer: MXNet wants one of each, but does not call it. */
int no_backward(const Call *call);

/* Return an attribute; an empty text where it is not there. */
const char *text(Attributes attributes, const char *key);

/* Return a whole number among the attributes; 0 where it is not there. */
long whole_number(Attributes attributes, const char *key);
static inline size_t size_of(Attributes attributes, const char *key) { return (size_t)whole_number(attributes, key); }

/* Return whether an input has these sizes, which are filled in where it has none. */
int has_sizes(FoundShape *input, int count, const int64_t *sizes);

/* Return a number among the attributes; `otherwise` where it is not there. */
float number(Attributes attributes, const char *key, float otherwise);

/* Return scratch memory of MXNet's for threads of so many bytes each, NULL where it has none; `threads` becomes how many
   there is memory for: `most`, those of the call, or what MXNet can count. */
void *scratch_memory(const Call *call, size_t bytes_of_thread, size_t most, int *threads);

#endif
