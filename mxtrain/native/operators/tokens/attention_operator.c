/* Attention as operators: of projections (length, batch, heads x 3 x width), and what is added to scores, one number for
   nothing; the second
   drops shares at a `rate`, by a seed of two whole numbers. */

#include "tokens/attention.h"
#include "operator.h"

static int is_one_number(const int64_t *added) { return added[0] == 1 && added[1] == 1 && added[2] == 1; }

static int are_masks(const int64_t *added, int64_t length, int64_t most) {
    return (added[0] == 1 || added[0] == most) && added[1] == length && added[2] == length;
}

static int shape(Attributes attributes, FoundShape *inputs, FoundShape *output) {
    long heads = whole_number(attributes, "heads");
    const int64_t *projected = inputs[0].sizes, *added = inputs[1].sizes;
    if (heads < 1 || inputs[0].count != 3 || inputs[1].count != 3 || projected[2] % (3 * heads) || !projected[2] ||
        !(is_one_number(added) || are_masks(added, projected[0], projected[1] * heads)))
        return FAILED;
    *output = (FoundShape){{projected[0], projected[1], projected[2] / 3}, 3};
    return DONE;
}

static int shape_with_seed(Attributes attributes, FoundShape *inputs, FoundShape *output) {
    float rate = number(attributes, "rate", 0);
    return rate > 0 && rate < 1 && inputs[2].count == 1 && inputs[2].sizes[0] == 2 ? shape(attributes, inputs, output)
                                                                                   : FAILED;
}

static Attention attention_of(const Call *call, int first) {
    const int64_t *sizes = call->inputs[first].sizes, *added = call->inputs[first + 1].sizes;
    size_t heads = size_of(call->attributes, "heads");
    Attention found = {(size_t)sizes[0],     (size_t)sizes[1],
                       heads,                (size_t)sizes[2] / 3 / heads,
                       is_one_number(added) ? 0 : (size_t)added[0], call->in[first], call->in[first + 1], 0, {0, 0, 0}};
    float rate = number(call->attributes, "rate", 0);
    if (rate > 0) found.drops = 1, found.dropout = dropout_of(call->in[first + 2], rate);
    return found;
}

static float *scratch_of(const Call *call, const Attention *attention, int *threads) {
    size_t bytes = attention_scratch(attention) * sizeof(float);
    return scratch_memory(call, bytes, (size_t)call->num_threads, threads);
}

static int forward(const Call *call) {
    Attention attention = attention_of(call, 0);
    int threads;
    float *scratch = scratch_of(call, &attention, &threads);
    if (!scratch) return FAILED;
    attend(&attention, call->out[0], scratch, threads);
    return DONE;
}

/* Of `added` and of a seed there is no gradient: a graph asks for none (`rewrites/own/attentions.py`). */
static int backward(const Call *call) {
    Attention attention = attention_of(call, 1);
    int threads;
    float *scratch = scratch_of(call, &attention, &threads);
    if (!scratch) return FAILED;
    attend_backward(&attention, call->in[0], call->out[0], scratch, threads);
    return DONE;
}

const Operator attention_operator = {"mxtrain_attention", 2, 1, shape, forward, backward, 0, {0}};
const Operator dropping_attention_operator = {
    "mxtrain_dropping_attention", 3, 1, shape_with_seed, forward, backward, 0, {0}};
