/* The Python side, mxtrain.data.native._built: checks arguments, and computes without Python's lock. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>

#include "checksum.h"
#include "coefficients.h"
#include "crop.h"
#include "grid.h"
#include "random.h"

/* Of table_module.c. */
extern PyMethodDef table_methods[];

PyDoc_STRVAR(
    crop_doc,
    "crop(payload, top, left, height, width, to_height=height, to_width=width)\n\n"
    "The RGB pixels of a box, as libjpeg-turbo decodes them and OpenCV's INTER_LINEAR resizes them, in a bytearray;\n"
    "None where these have to do it.");

static int is_inside(const Box *box, const Jpeg *jpeg) {
    return box->top >= 0 && box->left >= 0 && box->height >= 1 && box->width >= 1 &&
           box->height <= jpeg->height - box->top && box->width <= jpeg->width - box->left;
}

static const char NOT_A_SIZE[] = "sides are 1 to 65500 pixels long";

static int is_size(Py_ssize_t height, Py_ssize_t width) {
    return height >= 1 && width >= 1 && height <= MAX_SIDE && width <= MAX_SIDE;
}

static PyObject *crop(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer bytes;
    Box box;
    Jpeg jpeg;
    PyObject *pixels = NULL;
    int height = 0, width = 0;
    if (!PyArg_ParseTuple(arguments, "y*iiii|ii", &bytes, &box.top, &box.left, &box.height, &box.width, &height, &width))
        return NULL;
    if (PyTuple_GET_SIZE(arguments) == 5) height = box.height, width = box.width;
    int failed = parse_jpeg(bytes.buf, (size_t)bytes.len, &jpeg);
    if (!failed && !is_inside(&box, &jpeg)) {
        PyErr_SetString(PyExc_ValueError, "the box is not inside the picture");
    } else if (!failed && !is_size(height, width)) {
        PyErr_SetString(PyExc_ValueError, NOT_A_SIZE);
    } else if (!failed && (pixels = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)height * width * 3))) {
        uint8_t *rgb = (uint8_t *)PyByteArray_AS_STRING(pixels);
        PyThreadState *lock = PyEval_SaveThread();
        failed = decode_box(&jpeg, &box, height, width, rgb);
        PyEval_RestoreThread(lock);
        if (failed) Py_CLEAR(pixels);
        if (failed == NO_MEMORY) PyErr_NoMemory();
    }
    PyBuffer_Release(&bytes);
    if (pixels || PyErr_Occurred()) return pixels;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    resize_doc,
    "resize(image, height, width)\n\n"
    "RGB pixels, uint8 (height, width, 3), in another size, as OpenCV's INTER_LINEAR makes them, in a bytearray; None\n"
    "where OpenCV has to do it.");

static int is_image(const Py_buffer *image) {
    return image->ndim == 3 && image->itemsize == 1 && image->shape[2] == 3 && image->strides[2] == 1 &&
           image->strides[1] == 3;
}

static PyObject *resize_pixels(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer image;
    PyObject *of_image, *pixels = NULL;
    int height, width;
    if (!PyArg_ParseTuple(arguments, "Oii", &of_image, &height, &width)) return NULL;
    if (PyObject_GetBuffer(of_image, &image, PyBUF_STRIDED_RO)) return NULL;
    if (!is_image(&image) || !is_size(height, width) || !is_size(image.shape[0], image.shape[1])) {
        PyErr_SetString(PyExc_ValueError, is_image(&image) ? NOT_A_SIZE : "expected RGB pixels (height, width, 3)");
    } else if ((pixels = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)height * width * 3))) {
        Pixels from = {image.buf, (size_t)image.shape[0], (size_t)image.shape[1], image.strides[0]};
        Rows rows = {read_pixels, &from, (int)from.height, (int)from.width};
        uint8_t *rgb = (uint8_t *)PyByteArray_AS_STRING(pixels);
        PyThreadState *lock = PyEval_SaveThread();
        int failed = resize(&rows, height, width, rgb);
        PyEval_RestoreThread(lock);
        if (failed) Py_CLEAR(pixels);
        if (failed == NO_MEMORY) PyErr_NoMemory();
    }
    PyBuffer_Release(&image);
    if (pixels || PyErr_Occurred()) return pixels;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    planes_doc,
    "planes(image, out, scale, offset)\n\n"
    "Write RGB pixels, uint8 (height, width, 3), into planes (3, height, width): of float32, each level times its\n"
    "colour's scale less its offset, or of uint8, as they are.");

static int is_shaped(const Py_buffer *image, const Py_buffer *out) {
    return is_image(image) && out->ndim == 3 && out->shape[0] == 3 &&
           out->shape[1] == image->shape[0] && out->shape[2] == image->shape[1] &&
           (out->itemsize == 1 || (out->itemsize == 4 && out->format[0] == 'f'));
}

static PyObject *planes(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer image = {.obj = NULL}, out = {.obj = NULL};
    PyObject *of_image, *of_out;
    float scale[3], offset[3];
    if (!PyArg_ParseTuple(arguments, "OO(fff)(fff)", &of_image, &of_out, scale, scale + 1, scale + 2, offset,
                          offset + 1, offset + 2))
        return NULL;
    if (PyObject_GetBuffer(of_image, &image, PyBUF_STRIDED_RO)) return NULL;
    if (PyObject_GetBuffer(of_out, &out, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE | PyBUF_FORMAT)) {
        PyBuffer_Release(&image);
        return NULL;
    }
    int is_right = is_shaped(&image, &out);
    if (is_right) {
        Pixels pixels = {image.buf, (size_t)image.shape[0], (size_t)image.shape[1], image.strides[0]};
        PyThreadState *lock = PyEval_SaveThread();
        if (out.itemsize == 4) to_floats(&pixels, scale, offset, out.buf);
        else to_bytes(&pixels, out.buf);
        PyEval_RestoreThread(lock);
    }
    PyBuffer_Release(&image);
    PyBuffer_Release(&out);
    if (is_right) Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError,
                    "expected RGB pixels (height, width, 3) and planes (3, height, width) of float32 or uint8");
    return NULL;
}

PyDoc_STRVAR(rewrite_doc,
             "rewrite_jpeg(payload, interval)\n\n"
             "A baseline JPEG of the same coefficients, with a restart marker every `interval` units, in bytes; where\n"
             "it cannot be made, the reason, as text.");

static PyObject *rewrite_jpeg(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer bytes;
    int interval;
    uint8_t *written = NULL;
    size_t num_bytes = 0;
    if (!PyArg_ParseTuple(arguments, "y*i", &bytes, &interval)) return NULL;
    PyObject *result = NULL;
    if (interval < 1 || interval > 65535) {
        PyErr_SetString(PyExc_ValueError, "an interval is 1 to 65535 units");
    } else {
        PyThreadState *lock = PyEval_SaveThread();
        const char *reason = rewrite(bytes.buf, (size_t)bytes.len, interval, &written, &num_bytes);
        PyEval_RestoreThread(lock);
        if (reason == NO_MORE_MEMORY) PyErr_NoMemory();
        else if (reason) result = PyUnicode_FromString(reason);
        else result = PyBytes_FromStringAndSize((const char *)written, (Py_ssize_t)num_bytes);
        free(written);
    }
    PyBuffer_Release(&bytes);
    return result;
}

PyDoc_STRVAR(jpeg_size_doc,
             "jpeg_size(payload)\n\n"
             "Height and width of a JPEG that `crop` may know; None for any other.");

static PyObject *jpeg_size(PyObject *module, PyObject *payload) {
    (void)module;
    Py_buffer bytes;
    Jpeg jpeg;
    if (PyObject_GetBuffer(payload, &bytes, PyBUF_SIMPLE)) return NULL;
    int failed = parse_jpeg(bytes.buf, (size_t)bytes.len, &jpeg);
    PyBuffer_Release(&bytes);
    if (failed) Py_RETURN_NONE;
    return Py_BuildValue("ii", jpeg.height, jpeg.width);
}

PyDoc_STRVAR(crc32_doc, "crc32(data, value=0)\n\nWhat zlib.crc32 returns.");

static PyObject *crc32(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer bytes;
    unsigned value = 0;
    if (!PyArg_ParseTuple(arguments, "y*|I", &bytes, &value)) return NULL;
    PyThreadState *lock = PyEval_SaveThread();
    uint32_t found = checksum(bytes.buf, (size_t)bytes.len, value);
    PyEval_RestoreThread(lock);
    PyBuffer_Release(&bytes);
    return PyLong_FromUnsignedLong(found);
}

PyDoc_STRVAR(streams_doc, "random_streams(seed)\n\nThe beginning of MXNet's streams of random numbers, in a bytearray.");

static PyObject *random_streams(PyObject *module, PyObject *arguments) {
    (void)module;
    unsigned seed;
    if (!PyArg_ParseTuple(arguments, "I", &seed)) return NULL;
    PyObject *streams = PyByteArray_FromStringAndSize(NULL, NUM_STREAMS * sizeof(Stream));
    if (streams) begin_streams((Stream *)PyByteArray_AS_STRING(streams), seed);
    return streams;
}

typedef void (*Draw)(Stream *streams, float first, float second, float *out, size_t count);

static PyObject *drawn(PyObject *arguments, Draw draw) {
    Py_buffer streams, out;
    float first, second;
    if (!PyArg_ParseTuple(arguments, "w*ffw*", &streams, &first, &second, &out)) return NULL;
    int is_right = streams.len == NUM_STREAMS * sizeof(Stream) && out.len % sizeof(float) == 0;
    if (is_right) {
        PyThreadState *lock = PyEval_SaveThread();
        draw(streams.buf, first, second, out.buf, (size_t)out.len / sizeof(float));
        PyEval_RestoreThread(lock);
    }
    PyBuffer_Release(&streams);
    PyBuffer_Release(&out);
    if (is_right) Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, "expected what random_streams returns, and float32 numbers");
    return NULL;
}

PyDoc_STRVAR(uniform_doc,
             "draw_uniform(streams, low, high, out)\n\nFill float32 numbers as MXNet does, and move the streams on.");

static PyObject *uniform(PyObject *module, PyObject *arguments) {
    (void)module;
    return drawn(arguments, draw_uniform);
}

PyDoc_STRVAR(normal_doc,
             "draw_normal(streams, mean, deviation, out)\n\nFill float32 numbers as MXNet does, and move the streams on.");

static PyObject *normal(PyObject *module, PyObject *arguments) {
    (void)module;
    return drawn(arguments, draw_normal);
}

PyDoc_STRVAR(add_on_grid_doc,
             "add_on_grid(total, values, exponents, reach, is_first, maxima)\n\n"
             "Add float32 `values` to a `total`, rounded to multiples of 2**exponent, an int32 for each block. If it is\n"
             "the first addition the total counts as zero. It is float64, or float32 for a single addition, which may be\n"
             "the values themselves. Unless `maxima` is None it then takes the place of the values, and those of its\n"
             "blocks, float32, are written.");

/* Read the arguments of an addition, whose memory the caller holds. */
static int read_addition(PyObject *arguments, Addition *addition) {
    Py_buffer total, values, exponents, maxima = {.obj = NULL};
    PyObject *of_maxima;
    if (!PyArg_ParseTuple(arguments, "w*w*y*ipO", &total, &values, &exponents, &addition->reach, &addition->is_first,
                          &of_maxima))
        return 0;
    size_t count = (size_t)values.len / sizeof(float), size = num_blocks(count) * sizeof(float);
    int is_single = total.len == values.len;
    int is_right = (of_maxima == Py_None || !PyObject_GetBuffer(of_maxima, &maxima, PyBUF_WRITABLE)) &&
                   (size_t)values.len == count * sizeof(float) && (!is_single || addition->is_first) &&
                   (is_single || (size_t)total.len == count * sizeof(double)) && (size_t)exponents.len == size &&
                   (!maxima.obj || (size_t)maxima.len == size) && addition->reach >= 0 && addition->reach <= 51;
    addition->count = count;
    addition->total = is_single ? NULL : total.buf;
    addition->single = is_single && total.buf != values.buf ? total.buf : NULL;
    addition->values = values.buf;
    addition->exponents = exponents.buf;
    addition->maxima = maxima.obj ? maxima.buf : NULL;
    PyBuffer_Release(&total);
    PyBuffer_Release(&values);
    PyBuffer_Release(&exponents);
    PyBuffer_Release(&maxima);
    if (!is_right && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError,
                        "expected as many float64 and float32 numbers, or float32 ones for a first addition, an int32\n"
                        "and a float32 for each block, and a reach up to 51");
    return is_right;
}

static PyObject *add_to_total(PyObject *module, PyObject *arguments) {
    (void)module;
    Addition addition;
    if (!read_addition(arguments, &addition)) return NULL;
    PyThreadState *lock = PyEval_SaveThread();
    add_on_grid(&addition);
    PyEval_RestoreThread(lock);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(new_addition_doc,
             "new_addition(total, values, exponents, reach, is_first, maxima)\n\n"
             "The address of what ADD_IN_ENGINE does later as add_on_grid does it now; FREE frees it. The arrays must\n"
             "be there until then.");

static PyObject *new_addition(PyObject *module, PyObject *arguments) {
    (void)module;
    Addition addition, *copy;
    if (!read_addition(arguments, &addition)) return NULL;
    if (!(copy = malloc(sizeof *copy))) return PyErr_NoMemory();
    *copy = addition;
    return PyLong_FromVoidPtr(copy);
}

PyDoc_STRVAR(block_maxima_doc,
             "block_maxima(values, maxima)\n\n"
             "Write the largest absolute value of each block of float32 `values` into float32 `maxima`.");

static PyObject *maxima_of_blocks(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer values, maxima;
    if (!PyArg_ParseTuple(arguments, "y*w*", &values, &maxima)) return NULL;
    size_t count = (size_t)values.len / sizeof(float);
    int is_right = (size_t)values.len == count * sizeof(float) &&
                   (size_t)maxima.len == num_blocks(count) * sizeof(float);
    if (is_right) {
        PyThreadState *lock = PyEval_SaveThread();
        block_maxima(values.buf, count, maxima.buf);
        PyEval_RestoreThread(lock);
    }
    PyBuffer_Release(&values);
    PyBuffer_Release(&maxima);
    if (is_right) Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, "expected float32 numbers, and one for each block of them");
    return NULL;
}

static PyMethodDef methods[] = {
    {"crc32", crc32, METH_VARARGS, crc32_doc},
    {"jpeg_size", jpeg_size, METH_O, jpeg_size_doc},
    {"crop", crop, METH_VARARGS, crop_doc},
    {"resize", resize_pixels, METH_VARARGS, resize_doc},
    {"planes", planes, METH_VARARGS, planes_doc},
    {"rewrite_jpeg", rewrite_jpeg, METH_VARARGS, rewrite_doc},
    {"random_streams", random_streams, METH_VARARGS, streams_doc},
    {"draw_uniform", uniform, METH_VARARGS, uniform_doc},
    {"draw_normal", normal, METH_VARARGS, normal_doc},
    {"add_on_grid", add_to_total, METH_VARARGS, add_on_grid_doc},
    {"new_addition", new_addition, METH_VARARGS, new_addition_doc},
    {"block_maxima", maxima_of_blocks, METH_VARARGS, block_maxima_doc},
    {NULL, NULL, 0, NULL},
};

/* Count it up here and in __init__.py when a function takes or returns something else. */
#define INTERFACE 9

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "mxtrain.data.native._built",
    "Boxes of JPEGs, resized pixels, planes of pixels, JPEGs with restart markers, checksums, random numbers, and exact sums.",
    -1,
    methods,
    NULL,
    NULL,
    NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__built(void);
PyMODINIT_FUNC PyInit__built(void) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2") ||
        !__builtin_cpu_supports("pclmul")) {
        PyErr_SetString(PyExc_ImportError, "this machine has no AVX2, FMA, BMI2 or PCLMULQDQ");
        return NULL;
    }
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL &&
        (PyModule_AddFunctions(module, table_methods) < 0 ||
         PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0 ||
         PyModule_AddObject(module, "ADD_IN_ENGINE", PyLong_FromVoidPtr((void *)(uintptr_t)add_in_engine)) < 0 ||
         PyModule_AddObject(module, "FREE", PyLong_FromVoidPtr((void *)(uintptr_t)free)) < 0)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
