"""The operators of MXNet by family, on whichever NumPy is installed: what they are given, and what they answer."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
import scipy.sparse

from mxtrain.runtime import mx

nd, sym = mx.nd, mx.sym
TWO, THREE = np.int64(2), np.int32(3)  # what np.prod, a shape or an index of NumPy's gives

GRID = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
PICTURES = np.arange(2 * 4 * 8 * 8, dtype=np.float32).reshape(2, 4, 8, 8) % 17
SQUARE = np.array([[2, 1, 0], [1, 3, 1], [0, 1, 4]], np.float32)
BOXES = np.array([[0, 0.9, 0, 0, 1, 1], [0, 0.8, 0, 0, 1, 0.9], [1, 0.7, 2, 2, 3, 3]], np.float32)


def array(values: Any, **keywords: Any) -> Any:
    return nd.array(values, **keywords)


def several_updates(**rates: Any) -> Any:
    weights = [nd.ones(2), nd.ones(2)]
    nd.multi_sgd_update(weights[0], nd.ones(2), weights[1], nd.ones(2), num_weights=TWO, out=weights, **rates)
    return weights[0] * weights[1] - nd.ones(2) / 8


# An expression of each family, and the sum of what it answers.
FAMILIES: dict[str, tuple[Callable[[], Any], float]] = {
    "elementwise": (lambda: nd.sqrt(array(GRID)) ** 2, 276),
    "scalar of NumPy": (lambda: np.float32(2) * array(GRID) + np.float64(1) - TWO, 528),
    "broadcast": (lambda: nd.broadcast_add(array(GRID), nd.ones((TWO, 1, 1))), 300),
    "comparison": (lambda: array(GRID) > np.float32(11), 12),
    "reduction": (lambda: nd.mean(array(GRID), axis=(np.int64(0), TWO)), 34.5),
    "reshaping": (lambda: nd.reshape(array(GRID), shape=(TWO * THREE, -1))[TWO], 38),
    "slicing": (lambda: nd.slice(array(GRID), begin=(np.int64(0), None, TWO), end=(TWO, None, THREE)), 72),
    "ordering": (lambda: nd.topk(array(GRID), k=TWO, ret_typ="value"), 150),
    "indexing": (lambda: nd.take(array(GRID), array([0, 1])) + nd.pick(array(GRID), nd.zeros((2, 3))).sum(), 1716),
    "one-hot": (lambda: nd.one_hot(array([0, 2]), int(THREE)), 2),
    "padding": (lambda: nd.pad(array(PICTURES), mode="edge", pad_width=tuple(np.array([0, 0] * 2 + [1] * 4))), 6367),
    "products": (lambda: nd.dot(array(SQUARE), array(SQUARE)) + nd.batch_dot(array([SQUARE]), array([SQUARE]))[0], 118),
    "linear algebra": (lambda: nd.linalg.gemm2(nd.linalg.potrf(array(SQUARE)), nd.ones((3, 1))), 6.2323),
    "convolution": (
        lambda: nd.Convolution(
            array(PICTURES), nd.ones((4, 4, 3, 3)), no_bias=True, kernel=(THREE, THREE), num_filter=np.int64(4)
        ),
        82228,
    ),
    "pooling": (lambda: nd.Pooling(array(PICTURES), kernel=tuple(np.array([2, 2])), stride=(2, 2)), 1677),
    "normalisation": (lambda: nd.LayerNorm(array(GRID), nd.ones(4), nd.ones(4)), 24),
    "softmax": (lambda: nd.softmax(array(GRID), axis=np.int64(1)), 8),
    "sequences": (lambda: nd.SequenceMask(array(GRID), array([1, 2, 1]), use_sequence_length=True), 136),
    "recurrent": (
        lambda: nd.RNN(
            nd.ones((2, 1, 2)), nd.ones(12) / 8, nd.zeros((1, 1, 2)), state_size=TWO, num_layers=1, mode="rnn_tanh"
        ),
        2.02025,
    ),
    "random": (lambda: nd.random.uniform(np.float32(1), np.float64(1), shape=(TWO, THREE)), 6),
    "pictures": (lambda: nd.image.to_tensor(array(np.full((2, 2, 3), 255), dtype="uint8")), 12),
    "detection": (lambda: nd.contrib.box_nms(array(BOXES), overlap_thresh=np.float32(0.5)), 8.6),
    "anchors": (lambda: nd.contrib.MultiBoxPrior(nd.ones((1, 3, 2, 2)), sizes=(np.float32(0.5),), ratios=(1.0,)), 8),
    "regions": (
        lambda: nd.contrib.ROIAlign(array(PICTURES), array([[0, 0, 0, 4, 4]]), (TWO, TWO), np.float32(1)),
        128.25,
    ),
    "quantized": (lambda: nd.contrib.quantize(array(GRID), array([-127]), array([127]), out_type="int8")[0], 276),
    "updates": (lambda: nd.sgd_update(array(GRID), nd.ones((2, 3, 4)), lr=np.float32(0.5)), 264),
    "several updates": (lambda: several_updates(lrs=[np.float32(0.5), np.float64(0.25)], wds=tuple(np.zeros(2))), 0.5),
    "foreach": (lambda: nd.contrib.foreach(lambda row, sums: (row + sums,) * 2, array(GRID[0]), nd.zeros(4))[0], 100),
    "while": (lambda: nd.contrib.while_loop(lambda i: i < 3, lambda i: (i, i + 1), nd.zeros(1), 4)[1], 3),
    "csr": (lambda: nd.sparse.dot(nd.sparse.csr_matrix(scipy.sparse.csr_matrix(SQUARE)), nd.ones((3, 2))), 26),
    "row_sparse": (lambda: nd.sparse.retain(array(SQUARE).tostype("row_sparse"), array([0, 2])).tostype("default"), 8),
    "coordinates": (lambda: nd.sparse.csr_matrix(([1, 2], ([0, 1], [1, 0])), (2, 2)).tostype("default"), 3),
    "a loop over axes": (lambda: array([sum(row.sum().asscalar() for row in each) for each in array(GRID)]), 276),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_of_operators_answers(family: str) -> None:
    expression, expected = FAMILIES[family]
    assert expression().asnumpy().astype(np.float64).sum() == pytest.approx(expected, rel=1e-3)


def test_numbers_of_numpy_are_numbers_in_a_graph_too() -> None:
    data = sym.var("data", shape=(TWO, THREE), lr_mult=np.float32(0.5))
    assert data.attr("__shape__") == "(2, 3)" and data.attr("__lr_mult__") == "0.5"
    shaped = sym.reshape(data, shape=(THREE, TWO))
    assert shaped.attr("shape") == "(3, 2)"
    assert shaped.infer_shape()[1] == [(3, 2)]
    parameter = mx.gluon.Parameter("weight", shape=tuple(np.array([2, 3])))
    assert parameter.var().attr("__shape__") == "(2, 3)"
    net = mx.gluon.nn.Dense(TWO, in_units=np.prod((2, 3)))
    net.initialize(mx.init.One())
    net.hybridize()
    assert net(nd.ones((1, 6))).asnumpy().tolist() == [[6, 6]]


def test_an_operator_in_python_gets_numbers() -> None:
    class Twice(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] * 2)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * 2)

    seen = {}

    @mx.operator.register("twice")
    class TwiceProp(mx.operator.CustomOpProp):
        def __init__(self, shape):
            super().__init__()
            seen["shape"] = shape

        def create_operator(self, ctx, shapes, dtypes):
            return Twice()

    data = nd.ones((2, 2))
    data.attach_grad()
    with mx.autograd.record():
        out = nd.Custom(data, op_type="twice", shape=(TWO, TWO))
    out.backward()
    assert (out.asnumpy() == 2).all() and (data.grad.asnumpy() == 2).all() and seen["shape"] == "(2, 2)"


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "uint8", "int8", "int32", "int64", "bool"]
)
def test_arrays_of_each_type_come_and_go(dtype: str, tmp_path: Path) -> None:
    kind = np.dtype(dtype).type
    for made in (
        nd.array([[1, 0]], dtype=dtype),
        nd.array(np.array([[1, 0]], dtype), dtype=dtype),
        nd.array([[1, 0]]).astype(kind),
    ):
        assert made.dtype == kind and made.asnumpy().tolist() == [[1, 0]]
    nd.save(str(tmp_path / "saved"), {"made": made})
    for again in (nd.load(str(tmp_path / "saved"))["made"], pickle.loads(pickle.dumps(made))):
        assert again.dtype == kind and again.asnumpy().tolist() == [[1, 0]]


def test_an_array_of_one_element_is_a_number() -> None:
    for shape in ((1,), (1, 1)):
        assert float(nd.ones(shape).asscalar()) == 1.0 and bool(nd.ones(shape))
    assert int(mx.np.ones((1, 1))) == 1 and float(mx.np.ones(1)) == 1.0


A, B = (mx.np.array(np.arange(start, start + 12).reshape(3, 4) / 13) for start in (1, 2))
NUMPY_LIKE: dict[str, tuple[Callable[[], Any], Any]] = {
    "trapz": (lambda: mx.np.trapz(A[0]), 7.5 / 13),
    "in1d": (lambda: mx.np.in1d(A, B).sum(), 11),
    "msort": (lambda: mx.np.msort(B)[0], B[0].asnumpy()),
    "alltrue": (lambda: mx.np.alltrue(A > 0), True),
    "pad": (lambda: mx.np.pad(A, ((1, 1), (1, 1)), mode="constant").shape, (5, 6)),
    "sum": (lambda: mx.np.sum(A), 6),
    "percentile": (lambda: mx.np.percentile(A, 50), 0.5),
    "interp": (lambda: mx.np.interp(mx.np.array([0.5]), mx.np.array([0, 1]), mx.np.array([0, 2])), 1),
    "isin": (lambda: mx.np.isin(mx.np.array([1, 5]), mx.np.array([5])), [0, 1]),
    "einsum": (lambda: mx.np.einsum("ij,kj->", A, B), 10.65089),
    "concatenate": (lambda: np.concatenate([A, B]).shape, (6, 4)),
    "a ufunc of NumPy's": (lambda: np.exp(A * 0), np.ones((3, 4))),
    "reshape": (lambda: mx.np.arange(6).reshape((THREE, TWO)).shape, (3, 2)),
    "zeros": (lambda: mx.np.zeros((TWO, THREE)).shape, (2, 3)),
    "fancy indices": (
        lambda: mx.np.arange(12).reshape(3, 4)[np.array([0, 2])],
        [[0, 1, 2, 3], [8, 9, 10, 11]],
    ),
    "solve": (
        lambda: mx.np.linalg.solve(mx.np.array(SQUARE), mx.np.ones((3, 1))),
        [[0.4444], [0.1111], [0.2222]],
    ),
    "random": (
        lambda: mx.np.random.uniform(np.float32(1), np.float64(1), size=(TWO, THREE)),
        np.ones((2, 3)),
    ),
    "resize, by a fallback": (lambda: mx.np.resize(A, (TWO, TWO)).shape, (2, 2)),
    "constants": (lambda: [mx.np.PZERO, mx.np.NINF], [0, -np.inf]),
}


@pytest.mark.filterwarnings("ignore:.*(alltrue|msort):DeprecationWarning")  # NumPy 1.25 and 1.26
@pytest.mark.parametrize("name", NUMPY_LIKE)
def test_mx_np_answers(name: str) -> None:
    expression, expected = NUMPY_LIKE[name]
    found = expression()
    found = found.asnumpy() if isinstance(found, mx.np.ndarray) else found
    np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol=1e-3, atol=1e-6)


def test_what_mx_np_hands_to_numpy_is_there() -> None:
    """A function that NumPy 1.20 removed refuses, as it did there; all others are NumPy's or mean the same."""
    from mxnet.numpy import fallback

    for name in fallback.__all__:
        assert callable(getattr(fallback, name)), name
    with pytest.raises(RuntimeError, match="numpy-financial"):
        mx.np.npv(0.1, A[0])


def test_names_that_numpy_removed_mean_what_they_did() -> None:
    assert np.array([1, 0], np.bool).dtype == bool and np.array([1], np.int).dtype == np.int64
    assert np.float is float and np.object is object and np.str is str and np.complex is complex
    with warnings.catch_warnings():  # NumPy 1.25 and 1.26 warn of some
        warnings.simplefilter("ignore", DeprecationWarning)
        assert np.product([2, 3]) == 6 and np.cumproduct([2, 3]).tolist() == [2, 6]
        assert np.alltrue([1, 1]) and np.sometrue([0, 1]) and np.round_(1.26, 1) == 1.3
        assert np.in1d([[1, 2]], [2], invert=True).tolist() == [True, False]
        assert np.trapz([1, 2, 3]) == 4 and np.row_stack([[1], [2]]).shape == (2, 1)
        assert np.msort(np.array([[3, 1], [2, 9]])).tolist() == [[2, 1], [3, 9]]
    assert np.asfarray([1]).dtype == np.float64 and np.asfarray([1], np.float32).dtype == np.float32
    assert np.PINF == np.Inf == np.Infinity == np.infty == -np.NINF and np.isnan([np.NaN, np.NAN]).all()
    assert np.signbit(np.NZERO) and not np.signbit(np.PZERO)
    assert np.float_(1).dtype == "f8" and np.complex_(1).dtype == "c16"
    assert isinstance("", np.compat.basestring) and np.string_(b"a") == b"a" and np.unicode_("a") == "a"
