/* The Python side of table.c: checks arguments, and computes without Python's lock. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>

#include "fields.h"
#include "table.h"

/* The buffers of a call, which are given back together. */
#define MOST_BUFFERS 8
typedef struct {
    Py_buffer of[MOST_BUFFERS];
    int count;
} Buffers;

static void give_back(Buffers *buffers) {
    while (buffers->count) PyBuffer_Release(&buffers->of[--buffers->count]);
}

/* The memory of an array of `size` bytes an item, and the number of items; NULL for None, with no item. */
static void *items_of(PyObject *array, size_t size, int is_written, Buffers *buffers, size_t *count, int *failed) {
    *count = 0;
    if (array == Py_None || *failed) return NULL;
    Py_buffer *buffer = &buffers->of[buffers->count];
    if (PyObject_GetBuffer(array, buffer, is_written ? PyBUF_CONTIG : PyBUF_CONTIG_RO)) {
        *failed = 1;
        return NULL;
    }
    buffers->count++;
    if ((size_t)buffer->itemsize != size) *failed = 1;
    *count = (size_t)buffer->len / size;
    return buffer->buf;
}

static PyObject *ended(Buffers *buffers, int failed) {
    give_back(buffers);
    if (!failed) Py_RETURN_NONE;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "arrays of a table that do not fit each other");
    return NULL;
}

/* Whether numbers are from `least` on, and below `end`. */
static int are_within(const int64_t *numbers, size_t count, int64_t least, size_t end) {
    for (size_t at = 0; at < count; at++)
        if (numbers[at] < least || numbers[at] >= (int64_t)end) return 0;
    return 1;
}

/* Whether an index has room for all slots behind its last place. */
static int is_index(unsigned long long num_places, size_t size, size_t num_ids) {
    return num_places && num_places >> 32 == 0 && num_ids <= INT32_MAX && size > num_places + num_ids;
}

PyDoc_STRVAR(find_slots_doc,
             "find_slots(places, num_places, ids, wanted, slots)\n\n"
             "Write the slot of each wanted id, -1 for one that is not there; see mxtrain/tables/index.py.");

static PyObject *find(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *of_places, *of_ids, *of_wanted, *of_slots;
    unsigned long long num_places;
    if (!PyArg_ParseTuple(arguments, "OKOOO", &of_places, &num_places, &of_ids, &of_wanted, &of_slots)) return NULL;
    Buffers buffers = {.count = 0};
    int failed = 0;
    size_t size, num_ids, count, num_slots;
    int32_t *places = items_of(of_places, 4, 0, &buffers, &size, &failed);
    const int64_t *ids = items_of(of_ids, 8, 0, &buffers, &num_ids, &failed);
    const int64_t *wanted = items_of(of_wanted, 8, 0, &buffers, &count, &failed);
    int64_t *slots = items_of(of_slots, 8, 1, &buffers, &num_slots, &failed);
    if (!failed && is_index(num_places, size, num_ids) && num_slots == count) {
        Index index = {places, num_places, ids};
        PyThreadState *lock = PyEval_SaveThread();
        find_slots(&index, wanted, count, slots);
        PyEval_RestoreThread(lock);
    } else {
        failed = 1;
    }
    return ended(&buffers, failed);
}

PyDoc_STRVAR(insert_slots_doc,
             "insert_slots(places, num_places, ids, slots)\n\nPut slots, whose ids are not there, into an index.");

static PyObject *insert(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *of_places, *of_ids, *of_slots;
    unsigned long long num_places;
    if (!PyArg_ParseTuple(arguments, "OKOO", &of_places, &num_places, &of_ids, &of_slots)) return NULL;
    Buffers buffers = {.count = 0};
    int failed = 0;
    size_t size, num_ids, count;
    int32_t *places = items_of(of_places, 4, 1, &buffers, &size, &failed);
    const int64_t *ids = items_of(of_ids, 8, 0, &buffers, &num_ids, &failed);
    const int64_t *slots = items_of(of_slots, 8, 0, &buffers, &count, &failed);
    if (!failed && is_index(num_places, size, num_ids) && are_within(slots, count, 0, num_ids)) {
        Index index = {places, num_places, ids};
        PyThreadState *lock = PyEval_SaveThread();
        insert_slots(&index, slots, count);
        PyEval_RestoreThread(lock);
    } else {
        failed = 1;
    }
    return ended(&buffers, failed);
}

PyDoc_STRVAR(hash_texts_doc,
             "hash_texts(data, starts, ends, hashes)\n\n"
             "Write the hash of each text in `data`; see mxtrain/tables/hashing.py.");

static PyObject *hashes_of_texts(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *of_data, *of_starts, *of_ends, *of_hashes;
    if (!PyArg_ParseTuple(arguments, "OOOO", &of_data, &of_starts, &of_ends, &of_hashes)) return NULL;
    Buffers buffers = {.count = 0};
    int failed = 0;
    size_t num_bytes, count, num_ends, num_hashes;
    const uint8_t *data = items_of(of_data, 1, 0, &buffers, &num_bytes, &failed);
    const int64_t *starts = items_of(of_starts, 8, 0, &buffers, &count, &failed);
    const int64_t *ends = items_of(of_ends, 8, 0, &buffers, &num_ends, &failed);
    int64_t *hashes = items_of(of_hashes, 8, 1, &buffers, &num_hashes, &failed);
    failed = failed || num_ends != count || num_hashes != count || !are_within(starts, count, 0, num_bytes + 1) ||
             !are_within(ends, count, 0, num_bytes + 1);
    for (size_t at = 0; !failed && at < count; at++) failed = starts[at] > ends[at];
    if (!failed) {
        PyThreadState *lock = PyEval_SaveThread();
        hash_texts(data, starts, ends, count, hashes);
        PyEval_RestoreThread(lock);
    }
    return ended(&buffers, failed);
}

PyDoc_STRVAR(read_rows_doc,
             "read_rows(rows, slots, ids, key, scale, step, out)\n\n"
             "Write the rows of slots, and for a slot of -1 the first values of its id.");

static PyObject *read_slots(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *of_rows, *of_slots, *of_ids, *of_out;
    unsigned long long key;
    float scale, step;
    if (!PyArg_ParseTuple(arguments, "OOOKffO", &of_rows, &of_slots, &of_ids, &key, &scale, &step, &of_out)) return NULL;
    Buffers buffers = {.count = 0};
    int failed = 0;
    size_t num_numbers, count, num_ids, num_out;
    const float *rows = items_of(of_rows, 4, 0, &buffers, &num_numbers, &failed);
    const int64_t *slots = items_of(of_slots, 8, 0, &buffers, &count, &failed);
    const int64_t *ids = items_of(of_ids, 8, 0, &buffers, &num_ids, &failed);
    float *out = items_of(of_out, 4, 1, &buffers, &num_out, &failed);
    size_t width = count ? num_out / count : 1;
    if (!failed && num_ids == count && width && num_out == count * width &&
        are_within(slots, count, -1, num_numbers / width)) {
        PyThreadState *lock = PyEval_SaveThread();
        read_rows(rows, width, slots, ids, count, key, scale, step, out);
        PyEval_RestoreThread(lock);
    } else {
        failed = 1;
    }
    return ended(&buffers, failed);
}

PyDoc_STRVAR(gather_doc,
             "gather(column, item_bytes, slots, records, offset)\n\n"
             "Copy the item of each slot in the bytes of a column into the bytes of one record after the other.");

static PyObject *gather(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *of_column, *of_slots, *of_records;
    Py_ssize_t item_bytes, offset;
    if (!PyArg_ParseTuple(arguments, "OnOOn", &of_column, &item_bytes, &of_slots, &of_records, &offset)) return NULL;
    Buffers buffers = {.count = 0};
    int failed = 0;
    size_t num_bytes, count, size;
    const uint8_t *column = items_of(of_column, 1, 0, &buffers, &num_bytes, &failed);
    const int64_t *slots = items_of(of_slots, 8, 0, &buffers, &count, &failed);
    uint8_t *records = items_of(of_records, 1, 1, &buffers, &size, &failed);
    size_t record_bytes = count ? size / count : 0;
    if (!failed && item_bytes > 0 && offset >= 0 && size == count * record_bytes &&
        (!count || (size_t)item_bytes + (size_t)offset <= record_bytes) &&
        are_within(slots, count, 0, num_bytes / (size_t)item_bytes)) {
        PyThreadState *lock = PyEval_SaveThread();
        gather_items(column, (size_t)item_bytes, slots, count, records + offset, record_bytes);
        PyEval_RestoreThread(lock);
    } else {
        failed = 1;
    }
    return ended(&buffers, failed);
}

PyDoc_STRVAR(find_records_doc,
             "find_records(file, start, record_bytes, num_records, ids, are_there, records)\n\n"
             "Read the record of each id from a file, by its descriptor, and note whether it is there;\n"
             "see mxtrain/tables/saved_table.py.");

static PyObject *read_records(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *of_ids, *of_are_there, *of_records;
    RecordFile from;
    long long start;
    Py_ssize_t record_bytes, num_records;
    if (!PyArg_ParseTuple(arguments, "iLnnOOO", &from.file, &start, &record_bytes, &num_records, &of_ids, &of_are_there,
                          &of_records))
        return NULL;
    Buffers buffers = {.count = 0};
    int failed = 0, is_read = 1, error = 0;
    size_t count, num_answers, size;
    const int64_t *ids = items_of(of_ids, 8, 0, &buffers, &count, &failed);
    uint8_t *are_there = items_of(of_are_there, 1, 1, &buffers, &num_answers, &failed);
    uint8_t *records = items_of(of_records, 1, 1, &buffers, &size, &failed);
    if (!failed && start >= 0 && record_bytes >= 8 && num_records >= 0 && num_answers == count &&
        size == count * (size_t)record_bytes) {
        from.start = start, from.record_bytes = (size_t)record_bytes, from.num_records = (size_t)num_records;
        PyThreadState *lock = PyEval_SaveThread();
        errno = 0;
        is_read = find_records(&from, ids, count, are_there, records);
        error = errno ? errno : EIO;
        PyEval_RestoreThread(lock);
    } else {
        failed = 1;
    }
    if (is_read) return ended(&buffers, failed);
    give_back(&buffers);
    errno = error;
    return PyErr_SetFromErrno(PyExc_OSError);
}

PyDoc_STRVAR(take_rows_doc, "take_rows(rows, positions, out)\n\nWrite the row at each position.");

static PyObject *take(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *of_rows, *of_positions, *of_out;
    if (!PyArg_ParseTuple(arguments, "OOO", &of_rows, &of_positions, &of_out)) return NULL;
    Buffers buffers = {.count = 0};
    int failed = 0;
    size_t num_numbers, count, num_out;
    const float *rows = items_of(of_rows, 4, 0, &buffers, &num_numbers, &failed);
    const int64_t *positions = items_of(of_positions, 8, 0, &buffers, &count, &failed);
    float *out = items_of(of_out, 4, 1, &buffers, &num_out, &failed);
    size_t width = count ? num_out / count : 1;
    if (!failed && width && num_out == count * width && are_within(positions, count, 0, num_numbers / width)) {
        PyThreadState *lock = PyEval_SaveThread();
        take_rows(rows, width, positions, count, out);
        PyEval_RestoreThread(lock);
    } else {
        failed = 1;
    }
    return ended(&buffers, failed);
}

PyDoc_STRVAR(distinct_ids_doc,
             "distinct_ids(ids, places, distinct, positions)\n\n"
             "Write each id once, as they come, and the position of each among these; return how many there are.\n"
             "`places` are a power of two, more than there are ids.");

static PyObject *distinct(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *of_ids, *of_places, *of_distinct, *of_positions;
    if (!PyArg_ParseTuple(arguments, "OOOO", &of_ids, &of_places, &of_distinct, &of_positions)) return NULL;
    Buffers buffers = {.count = 0};
    int failed = 0;
    size_t count, num_places, room, num_positions, num_distinct = 0;
    const int64_t *ids = items_of(of_ids, 8, 0, &buffers, &count, &failed);
    int32_t *places = items_of(of_places, 4, 1, &buffers, &num_places, &failed);
    int64_t *distinct = items_of(of_distinct, 8, 1, &buffers, &room, &failed);
    int64_t *positions = items_of(of_positions, 8, 1, &buffers, &num_positions, &failed);
    if (!failed && count < INT32_MAX && room == count && num_positions == count && num_places > count &&
        (num_places & (num_places - 1)) == 0) {
        PyThreadState *lock = PyEval_SaveThread();
        num_distinct = distinct_ids(ids, count, places, num_places, distinct, positions);
        PyEval_RestoreThread(lock);
    } else {
        failed = 1;
    }
    PyObject *done = ended(&buffers, failed);
    if (done == NULL) return NULL;
    Py_DECREF(done);
    return PyLong_FromSize_t(num_distinct);
}

PyDoc_STRVAR(add_rows_doc, "add_rows(sums, places, rows)\n\nAdd each row to the sum at its place, in their order.");

static PyObject *add_to_sums(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *of_sums, *of_places, *of_rows;
    if (!PyArg_ParseTuple(arguments, "OOO", &of_sums, &of_places, &of_rows)) return NULL;
    Buffers buffers = {.count = 0};
    int failed = 0;
    size_t num_sums, count, num_numbers;
    float *sums = items_of(of_sums, 4, 1, &buffers, &num_sums, &failed);
    const int64_t *places = items_of(of_places, 8, 0, &buffers, &count, &failed);
    const float *rows = items_of(of_rows, 4, 0, &buffers, &num_numbers, &failed);
    size_t width = count ? num_numbers / count : 1;
    if (!failed && width && num_numbers == count * width && are_within(places, count, 0, num_sums / width)) {
        PyThreadState *lock = PyEval_SaveThread();
        add_rows_to(sums, width, places, rows, count);
        PyEval_RestoreThread(lock);
    } else {
        failed = 1;
    }
    return ended(&buffers, failed);
}

PyDoc_STRVAR(square_rows_doc, "square_rows(rows, squares)\n\nWrite the sum of the squares of each row.");

static PyObject *squares_of_rows(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *of_rows, *of_squares;
    if (!PyArg_ParseTuple(arguments, "OO", &of_rows, &of_squares)) return NULL;
    Buffers buffers = {.count = 0};
    int failed = 0;
    size_t num_numbers, count;
    const float *rows = items_of(of_rows, 4, 0, &buffers, &num_numbers, &failed);
    double *squares = items_of(of_squares, 8, 1, &buffers, &count, &failed);
    size_t width = count ? num_numbers / count : 0;
    if (!failed && num_numbers == count * width) {
        PyThreadState *lock = PyEval_SaveThread();
        square_rows(rows, width, count, squares);
        PyEval_RestoreThread(lock);
    } else {
        failed = 1;
    }
    return ended(&buffers, failed);
}

PyDoc_STRVAR(add_by_exponent_doc,
             "add_by_exponent(values, sums)\n\n"
             "Add float64 mantissas to the sums of their exponents; see mxtrain/tables/sums.py. ValueError at a number\n"
             "that is not finite.");

static PyObject *sums_by_exponent(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *of_values, *of_sums;
    if (!PyArg_ParseTuple(arguments, "OO", &of_values, &of_sums)) return NULL;
    Buffers buffers = {.count = 0};
    int failed = 0;
    size_t count, num_sums;
    const double *values = items_of(of_values, 8, 0, &buffers, &count, &failed);
    int64_t *sums = items_of(of_sums, 8, 1, &buffers, &num_sums, &failed);
    if (!failed && num_sums == 2 * EXPONENTS) {
        PyThreadState *lock = PyEval_SaveThread();
        failed = !add_by_exponent(values, count, sums);
        PyEval_RestoreThread(lock);
    } else {
        failed = 1;
    }
    return ended(&buffers, failed);
}

PyDoc_STRVAR(move_rows_doc,
             "move_rows(optimizer, rows, first, second, single, other, slots, gradients, factor, rate, momentum,\n"
             "beta1, beta2, epsilon, decay)\n\nMove the rows of slots; see mxtrain/tables/movement.py.");

static PyObject *move_slots(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *of_rows, *of_first, *of_second, *of_single, *of_other, *of_slots, *of_gradients;
    int optimizer;
    Movement by;
    if (!PyArg_ParseTuple(arguments, "iOOOOOOOfffffff", &optimizer, &of_rows, &of_first, &of_second, &of_single, &of_other,
                          &of_slots, &of_gradients, &by.factor, &by.rate, &by.momentum, &by.beta1, &by.beta2, &by.epsilon, &by.decay))
        return NULL;
    Buffers buffers = {.count = 0};
    int failed = 0;
    size_t num_numbers, num_first, num_second, num_single, num_other, count, num_gradients;
    by.optimizer = (Optimizer)optimizer;
    by.rows = items_of(of_rows, 4, 1, &buffers, &num_numbers, &failed);
    by.first = items_of(of_first, 4, 1, &buffers, &num_first, &failed);
    by.second = items_of(of_second, 4, 1, &buffers, &num_second, &failed);
    by.single = items_of(of_single, 4, 1, &buffers, &num_single, &failed);
    by.other = items_of(of_other, 4, 1, &buffers, &num_other, &failed);
    const int64_t *slots = items_of(of_slots, 8, 0, &buffers, &count, &failed);
    const float *gradients = items_of(of_gradients, 4, 0, &buffers, &num_gradients, &failed);
    size_t width = count ? num_gradients / count : 1;
    size_t num_rows = width ? num_numbers / width : 0;
    int has_first = optimizer == MOMENTUM || optimizer == ADAGRAD || optimizer == ADAM;
    int has_single = optimizer == ADAGRAD_ROW || optimizer == ADAM, has_second = optimizer == ADAM;
    if (!failed && optimizer >= SGD && optimizer <= ADAM && width && num_gradients == count * width &&
        are_within(slots, count, 0, num_rows) && num_first >= has_first * num_rows * width &&
        num_second >= has_second * num_rows * width && num_single >= has_single * num_rows &&
        num_other >= has_second * num_rows) {
        PyThreadState *lock = PyEval_SaveThread();
        move_rows(&by, width, slots, gradients, count);
        PyEval_RestoreThread(lock);
    } else {
        failed = 1;
    }
    return ended(&buffers, failed);
}

/* The sizes of samples' fields, from the numbers in a sample's sums, squares, positions and vectors; 0 where these do
   not fit each other, nor the rows. */
static int are_fields(Fields *shape, size_t num_positions, size_t num_vectors, size_t num_sums, size_t num_squares,
                      size_t num_rows) {
    if (!num_squares) return !num_positions && !num_vectors && !num_sums;
    shape->samples = num_squares;
    shape->fields = num_positions / num_squares;
    shape->width = num_positions ? num_vectors / num_positions : 0;
    size_t length = num_sums / num_squares;
    shape->weights = length - shape->width;
    return num_positions == shape->samples * shape->fields && num_vectors == num_positions * shape->width &&
           num_sums == shape->samples * length && shape->width && length >= shape->width && num_rows % length == 0;
}

PyDoc_STRVAR(take_fields_doc,
             "take_fields(rows, positions, vectors, sums, squares)\n\n"
             "Write the parts of the rows at positions; see mxtrain/tables/sums.py.");

static PyObject *take_parts(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *of_rows, *of_positions, *of_vectors, *of_sums, *of_squares;
    if (!PyArg_ParseTuple(arguments, "OOOOO", &of_rows, &of_positions, &of_vectors, &of_sums, &of_squares)) return NULL;
    Buffers buffers = {.count = 0};
    int failed = 0;
    size_t num_rows, count, num_vectors, num_sums, num_squares;
    const float *rows = items_of(of_rows, 4, 0, &buffers, &num_rows, &failed);
    const int64_t *positions = items_of(of_positions, 8, 0, &buffers, &count, &failed);
    float *vectors = items_of(of_vectors, 4, 1, &buffers, &num_vectors, &failed);
    float *sums = items_of(of_sums, 4, 1, &buffers, &num_sums, &failed);
    float *squares = items_of(of_squares, 4, 1, &buffers, &num_squares, &failed);
    Fields shape = {0, 0, 0, 0};
    failed = failed || !are_fields(&shape, count, num_vectors, num_sums, num_squares, num_rows) ||
             !are_within(positions, count, 0, count ? num_rows / (shape.weights + shape.width) : 0);
    float *scratch = failed ? NULL : PyMem_Malloc((shape.width + 1) * sizeof *scratch);
    if (scratch) {
        PyThreadState *lock = PyEval_SaveThread();
        take_fields(&shape, rows, positions, vectors, sums, squares, scratch);
        PyEval_RestoreThread(lock);
        PyMem_Free(scratch);
    } else if (!failed) {
        PyErr_NoMemory();
        failed = 1;
    }
    return ended(&buffers, failed);
}

PyDoc_STRVAR(add_fields_doc,
             "add_fields(rows, positions, vectors, of_vectors, of_sums, of_squares)\n\n"
             "Add to the row at each position its gradient; see mxtrain/tables/sums.py.");

static PyObject *add_parts(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *of_rows, *of_positions, *of_vectors, *of_their, *of_sums, *of_squares;
    if (!PyArg_ParseTuple(arguments, "OOOOOO", &of_rows, &of_positions, &of_vectors, &of_their, &of_sums, &of_squares))
        return NULL;
    Buffers buffers = {.count = 0};
    int failed = 0;
    size_t num_rows, count, num_vectors, num_their, num_sums, num_squares;
    float *rows = items_of(of_rows, 4, 1, &buffers, &num_rows, &failed);
    const int64_t *positions = items_of(of_positions, 8, 0, &buffers, &count, &failed);
    const float *vectors = items_of(of_vectors, 4, 0, &buffers, &num_vectors, &failed);
    const float *their = items_of(of_their, 4, 0, &buffers, &num_their, &failed);
    const float *sums = items_of(of_sums, 4, 0, &buffers, &num_sums, &failed);
    const float *squares = items_of(of_squares, 4, 0, &buffers, &num_squares, &failed);
    Fields shape = {0, 0, 0, 0};
    if (!failed && num_their == num_vectors &&
        are_fields(&shape, count, num_vectors, num_sums, num_squares, num_rows) &&
        are_within(positions, count, 0, count ? num_rows / (shape.weights + shape.width) : 0)) {
        PyThreadState *lock = PyEval_SaveThread();
        add_fields(&shape, rows, positions, vectors, their, sums, squares);
        PyEval_RestoreThread(lock);
    } else {
        failed = 1;
    }
    return ended(&buffers, failed);
}

extern PyMethodDef table_methods[];
PyMethodDef table_methods[] = {
    {"find_slots", find, METH_VARARGS, find_slots_doc},
    {"insert_slots", insert, METH_VARARGS, insert_slots_doc},
    {"hash_texts", hashes_of_texts, METH_VARARGS, hash_texts_doc},
    {"read_rows", read_slots, METH_VARARGS, read_rows_doc},
    {"gather", gather, METH_VARARGS, gather_doc},
    {"find_records", read_records, METH_VARARGS, find_records_doc},
    {"take_rows", take, METH_VARARGS, take_rows_doc},
    {"distinct_ids", distinct, METH_VARARGS, distinct_ids_doc},
    {"add_rows", add_to_sums, METH_VARARGS, add_rows_doc},
    {"square_rows", squares_of_rows, METH_VARARGS, square_rows_doc},
    {"add_by_exponent", sums_by_exponent, METH_VARARGS, add_by_exponent_doc},
    {"move_rows", move_slots, METH_VARARGS, move_rows_doc},
    {"take_fields", take_parts, METH_VARARGS, take_fields_doc},
    {"add_fields", add_parts, METH_VARARGS, add_fields_doc},
    {NULL, NULL, 0, NULL},
};
