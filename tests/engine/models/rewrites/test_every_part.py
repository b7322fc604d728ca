"""The parts of MXNet beside its operators, on whichever NumPy is installed: data, optimizers, metrics, nets, Module."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.runtime import gluoncv, mx
from tests.support.processes.fresh_python import run

nd, gluon = mx.nd, mx.gluon
TWO = np.int64(2)  # as from a shape of NumPy's


@pytest.fixture(autouse=True)
def no_warnings() -> Any:
    """NumPy's, Python's and SciPy's; MXNet's own are UserWarnings."""
    with warnings.catch_warnings():
        for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning, RuntimeWarning):
            warnings.simplefilter("error", category)
        # Python 3.12 and newer, of each fork of a process with threads.
        warnings.filterwarnings("ignore", ".*setDaemon", DeprecationWarning)  # in PrefetchingIter
        warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
        yield


@pytest.mark.parametrize("name", sorted(mx.optimizer.Optimizer.opt_registry))
def test_each_optimizer_moves_a_weight(name: str) -> None:
    if name in (
        "test",
        "ccsgd",
        "groupadagrad",
        "lbsgd",
    ):  # not an optimizer, renamed, for rows, for its scheduler
        pytest.skip("not for a plain weight")
    updater = mx.optimizer.get_updater(mx.optimizer.create(name, learning_rate=np.float32(0.1)))
    weight = nd.ones((2, 3))
    for _ in range(2):
        updater(0, nd.full((2, 3), 0.5), weight)
    assert np.isfinite(weight.asnumpy()).all() and (weight.asnumpy() != 1).all()
    assert len(updater.get_states()) > 0


LABELS, SCORES = np.array([1, 0, 1], np.float32), np.array([[0.2, 0.8], [0.6, 0.4], [0.7, 0.3]], np.float32)
NLL = -math.log(0.8) - math.log(0.6) - math.log(0.3)
METRICS: dict[str, tuple[list[Any], list[Any], float]] = {
    "acc": ([LABELS], [SCORES], 2 / 3),
    "top_k_accuracy": ([LABELS], [SCORES], 1),
    "f1": ([LABELS], [SCORES], 2 / 3),
    "mcc": ([LABELS], [SCORES], 0.5),
    "ce": ([LABELS], [SCORES], NLL / 3),
    "nll_loss": ([LABELS], [SCORES], NLL / 3),
    "perplexity": ([LABELS], [SCORES], math.exp(NLL / 3)),
    "mae": ([LABELS], [SCORES[:, 1]], 1.3 / 3),
    "mse": ([LABELS], [SCORES[:, 1]], (0.04 + 0.16 + 0.49) / 3),
    "rmse": ([LABELS], [SCORES[:, 1]], math.sqrt(0.23)),
    "pearsonr": ([LABELS], [SCORES[:, 1]], 0.32733),
    "pcc": ([LABELS], [SCORES], 0.5),
    "loss": ([LABELS], [SCORES], 0.5),
}


@pytest.mark.parametrize("name", METRICS)
def test_each_metric_says_what_it_should(name: str) -> None:
    labels, scores, expected = METRICS[name]
    keywords = {"top_k_accuracy": {"top_k": 2}, "perplexity": {"ignore_label": None}}.get(name, {})
    metric = mx.metric.create(name, **keywords)
    for _ in range(2):
        metric.update([nd.array(each) for each in labels], [nd.array(each) for each in scores])
    assert metric.get()[1] == pytest.approx(expected, rel=1e-4)
    metric.reset()
    assert math.isnan(metric.get()[1]) or name in ("pcc", "mcc", "f1")


def test_metrics_add_in_float64() -> None:
    """With NumPy 2 a Python float and a float32 make a float32, in which small terms of a long epoch are lost."""
    metric = mx.metric.create("loss")
    metric.update(None, [nd.array([2.0**24])])
    for _ in range(4):
        metric.update(None, [nd.ones(1)])
    assert metric.sum_metric == 2**24 + 4 and metric.global_sum_metric == 2**24 + 4


@pytest.mark.parametrize("name", ["factor", "multifactor", "poly", "cosine"])
def test_each_schedule_has_a_rate(name: str) -> None:
    schedules = mx.lr_scheduler
    schedule = {
        "factor": lambda: schedules.FactorScheduler(np.int64(1), 0.5, base_lr=1),
        "multifactor": lambda: schedules.MultiFactorScheduler([1, 3], 0.5, base_lr=1),
        "poly": lambda: schedules.PolyScheduler(4, base_lr=1, warmup_steps=1),
        "cosine": lambda: schedules.CosineScheduler(4, base_lr=np.float32(1)),
    }[name]()
    assert 0 < float(schedule(3)) < 1


def test_records_keep_labels_and_pictures(tmp_path: Path) -> None:
    picture = np.full((8, 8, 3), 200, np.uint8)
    record = mx.recordio.MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w")
    for key in range(6):
        label = np.array([key, 0.5]) if key % 2 else np.float32(key)
        header = mx.recordio.IRHeader(0, label, key, 0)
        record.write_idx(key, mx.recordio.pack_img(header, picture, quality=9, img_fmt=".png"))
    record.write_idx(6, mx.recordio.pack(mx.recordio.IRHeader(0, [1, 2, 3], 6, 0), b"bytes"))
    record.close()
    record = mx.recordio.MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "r")
    header, found = mx.recordio.unpack_img(record.read_idx(3))
    assert header.label.tolist() == [3, 0.5] and (found == picture).all()
    header, content = mx.recordio.unpack(record.read_idx(6))
    assert header.label.tolist() == [1, 2, 3] and content == b"bytes"
    record.close()
    dataset = gluon.data.vision.ImageRecordDataset(str(tmp_path / "a.rec"))
    assert dataset[2][1] == 2 and dataset[2][0].shape == (8, 8, 3)
    other = mx.recordio.MXRecordIO(str(tmp_path / "b.rec"), "w")
    for label in (0, 1):
        other.write(mx.recordio.pack_img(mx.recordio.IRHeader(0, label, label, 0), picture))
    other.close()
    iterator = mx.io.ImageRecordIter(
        path_imgrec=str(tmp_path / "b.rec"), data_shape=tuple(np.array([3, 8, 8])), batch_size=TWO
    )
    assert next(iterator).data[0].asnumpy().mean() == 200


# One thread: a HybridBlock keeps its open name scope in itself, so MXNet's own transforms break in two at once.
@pytest.mark.parametrize("keywords", [{}, {"num_workers": 2}, {"num_workers": 1, "thread_pool": True}])
def test_gluons_loader_and_its_transforms(keywords: dict[str, Any]) -> None:
    vision = gluon.data.vision.transforms
    change = vision.Compose(
        [
            vision.Resize(8),
            vision.CenterCrop(6),
            vision.RandomFlipLeftRight(),
            vision.ToTensor(),
            vision.Normalize(0.5, 0.5),
        ]
    )
    pictures, labels = [nd.full((10, 10, 3), 255, dtype="uint8")] * 7, np.arange(7)
    dataset = gluon.data.SimpleDataset(list(zip(pictures, labels))).transform_first(change, lazy=True)
    batches = list(gluon.data.DataLoader(dataset, batch_size=3, last_batch="keep", **keywords))
    assert [data.shape for data, _ in batches] == [(3, 3, 6, 6)] * 2 + [(1, 3, 6, 6)]
    assert np.concatenate([label.asnumpy() for _, label in batches]).tolist() == list(range(7))
    assert all((data.asnumpy() == 1).all() for data, _ in batches)


def test_pictures_change(tmp_path: Path) -> None:
    picture = nd.array(np.full((20, 24, 3), 100), dtype="uint8")
    augmenters = mx.image.CreateAugmenter(
        (3, 8, 8), resize=12, rand_crop=True, rand_resize=True, rand_mirror=True, brightness=0.1, contrast=0.1,
        saturation=0.1, hue=0.1, pca_noise=0.1, rand_gray=0.5, mean=True, std=True,
    )  # fmt: skip
    for augmenter in augmenters:
        picture = augmenter(picture)
    assert picture.shape == (8, 8, 3) and np.isfinite(picture.asnumpy()).all()
    vision = gluon.data.vision.transforms
    jitter = vision.Compose(
        [
            vision.RandomResizedCrop(8),
            vision.RandomColorJitter(0.1, 0.1, 0.1, 0.1),
            vision.RandomLighting(0.1),
        ]
    )
    assert jitter(nd.array(np.full((20, 24, 3), 100), dtype="uint8")).shape == (8, 8, 3)


def test_iterators_of_the_module_api(tmp_path: Path) -> None:
    rows = np.arange(12, dtype=np.float32).reshape(6, 2)
    np.savetxt(tmp_path / "a.csv", rows, delimiter=",")
    (tmp_path / "a.svm").write_text("1 0:2 1:3\n0 1:4\n")
    assert (
        next(mx.io.CSVIter(data_csv=str(tmp_path / "a.csv"), data_shape=(np.int64(2),), batch_size=3)).data[
            0
        ][0, 1]
        == 1
    )
    found = next(
        mx.io.LibSVMIter(data_libsvm=str(tmp_path / "a.svm"), data_shape=(np.int64(2),), batch_size=2)
    ).data[0]
    assert found.asnumpy().tolist() == [[2, 3], [0, 4]]
    batches = list(
        mx.io.NDArrayIter({"data": rows}, np.arange(6), batch_size=4, shuffle=True, last_batch_handle="pad")
    )
    assert len(batches) == 2 and batches[1].pad == 2
    data = (
        mx.gluon.data.vision.MNIST(str(tmp_path))
        if False
        else mx.io.ResizeIter(mx.io.NDArrayIter(rows, batch_size=2), 5)
    )
    assert len(list(mx.io.PrefetchingIter(data))) == 5


def test_a_module_fits(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.RandomState(0)
    rows = rng.normal(size=(40, 4)).astype(np.float32)
    data = mx.io.NDArrayIter(rows, (rows[:, 0] > 0).astype(np.float32), batch_size=np.int64(10))
    out = mx.sym.SoftmaxOutput(
        mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=np.int64(2)), name="softmax"
    )
    module = mx.mod.Module(out)
    module.fit(
        data, num_epoch=10, optimizer_params={"learning_rate": np.float64(1)}, initializer=mx.init.Xavier()
    )
    assert module.score(data, "acc")[0][1] > 0.9
    mx.viz.print_summary(out, {"data": (1, 4)})
    assert "FullyConnected" in capsys.readouterr().out
    assert mx.viz.plot_network(out, save_format="dot") is not None


@pytest.mark.parametrize(
    "name", ["zeros", "ones", "uniform", "normal", "orthogonal", "xavier", "msraprelu", "bilinear"]
)
def test_each_initializer_fills_a_weight(name: str) -> None:
    net = gluon.nn.Conv2D(4, np.int64(4), in_channels=4, use_bias=False, weight_initializer=name)
    net.initialize()
    assert np.isfinite(net.weight.data().asnumpy()).all()


CELLS = (gluon.rnn.RNNCell, gluon.rnn.LSTMCell, gluon.rnn.GRUCell)


@pytest.mark.parametrize(
    "make", [*CELLS, gluon.rnn.RNN, gluon.rnn.LSTM, gluon.rnn.GRU], ids=lambda make: make.__name__
)
def test_recurrent_nets_learn(make: Any) -> None:
    mx.random.seed(3)  # three units with a ReLU, as RNN has, let nothing through for one seed in eight
    net = make(np.int64(3), input_size=2)
    net.initialize()
    with mx.autograd.record():
        if make in CELLS:
            out, _ = net.unroll(np.int64(4), nd.ones((2, 4, 2)), merge_outputs=True)
        else:
            out = net(nd.ones((4, 2, 2)))
        loss = (out**2).sum()
    loss.backward()
    assert all(
        np.abs(each.grad().asnumpy()).sum() > 0 for each in net.collect_params(".*i2h_weight").values()
    )


def test_old_cells_and_buckets() -> None:
    stack = mx.rnn.SequentialRNNCell()
    stack.add(mx.rnn.LSTMCell(np.int64(3), prefix="a_"))
    stack.add(mx.rnn.ResidualCell(mx.rnn.GRUCell(3, prefix="b_")))
    out, _ = stack.unroll(2, mx.sym.var("data"), merge_outputs=True)
    assert out.infer_shape(data=(2, 2, 3))[1] == [(2, 2, 3)]
    sentences, vocabulary = mx.rnn.encode_sentences([["a", "b"], ["b", "c", "a"]], start_label=1)
    batch = next(
        mx.rnn.BucketSentenceIter(sentences * 2, batch_size=np.int64(2), buckets=[2, 3], invalid_label=0)
    )
    assert batch.data[0].shape in ((2, 2), (2, 3)) and len(vocabulary) == 4


def test_contrib_text_and_estimator() -> None:
    from mxnet.contrib import text
    from mxnet.gluon.contrib.estimator import Estimator

    counter = text.utils.count_tokens_from_str("a b\nb c", token_delim=" ", seq_delim="\n")
    assert text.vocab.Vocabulary(counter).to_indices(["b", "nothing"]) == [1, 0]
    net = gluon.nn.Dense(2)
    net.initialize()
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(nd.ones((8, 3)), nd.zeros(8)), batch_size=4)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    accuracy = mx.metric.Accuracy()
    estimator = Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), train_metrics=accuracy, trainer=trainer)
    estimator.logger.setLevel("ERROR")
    estimator.fit(loader, epochs=20)
    assert estimator.train_metrics[0].get()[1] == 1


LOSSES = {
    "L1Loss": 2, "L2Loss": 2, "HuberLoss": 2, "HingeLoss": 2, "SquaredHingeLoss": 2, "LogisticLoss": 2,
    "SigmoidBinaryCrossEntropyLoss": 2, "KLDivLoss": 2, "PoissonNLLLoss": 2, "SoftmaxCrossEntropyLoss": 2,
    "TripletLoss": 3, "CosineEmbeddingLoss": 3,
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_each_loss_is_a_number(name: str) -> None:
    arguments = [nd.random.uniform(0.1, 0.9, shape=(4, 3)) for _ in range(LOSSES[name])]
    arguments[-1] = {"SoftmaxCrossEntropyLoss": nd.zeros(4), "CosineEmbeddingLoss": nd.ones(4)}.get(
        name, arguments[-1]
    )
    assert np.isfinite(getattr(gluon.loss, name)()(*arguments).asnumpy()).all()


def test_what_a_detector_is_trained_and_judged_with() -> None:
    """Anchors, targets, and the metrics of VOC, of GluonCV."""
    boxes = np.array([[10, 10, 20, 20], [30, 30, 44, 44]], np.float32)
    found = gluoncv.data.transforms.bbox.resize(boxes, (64, 64), (32, 32))
    assert found.tolist() == [[5, 5, 10, 10], [15, 15, 22, 22]]
    assert gluoncv.utils.bbox_iou(boxes, boxes).diagonal().tolist() == [1, 1]
    metric = gluoncv.utils.metrics.VOC07MApMetric(class_names=["a", "b"])
    labels = nd.array([[0], [1]])[None]
    metric.update(nd.array(boxes)[None], labels, nd.ones((1, 2, 1)), nd.array(boxes)[None], labels)
    assert metric.get()[1][-1] == pytest.approx(1)
    segmentation = gluoncv.utils.metrics.SegmentationMetric(2)
    segmentation.update(nd.array([[[0, 1], [1, 1]]]), nd.array([[[[1, 0], [0, 0]], [[0, 1], [1, 1]]]]))
    assert segmentation.get() == pytest.approx((1, 1))
    picture = nd.array(np.full((40, 48, 3), 99), dtype="uint8")
    change = gluoncv.data.transforms.presets.ssd.SSDDefaultTrainTransform(32, 32)
    out, label = change(picture, np.array([[5, 5, 30, 30, 0]], np.float32))
    assert out.shape == (3, 32, 32) and label.shape[1] == 5


# A net of a few families, small; tests/engine/models/nets/test_models.py goes through all classifiers.
FEW = ("cifar_resnet20_v1", "mobilenet0.25", "squeezenet1.1", "resnet18_v1b", "mobilenetv3_small")
DETECTORS = ("center_net_", "faster_rcnn_", "mask_rcnn_", "ssd_", "yolo3_")


@pytest.mark.parametrize("name", FEW)
def test_a_few_classifiers_compute(name: str) -> None:
    side = 224 if name.startswith("squeezenet") else 64
    net = gluoncv.model_zoo.get_model(name, classes=3)
    net.initialize(mx.init.Xavier())
    assert net(nd.ones((1, 3, side, side))).shape == (1, 3)


def test_a_detector_computes() -> None:
    net = gluoncv.model_zoo.get_model("yolo3_mobilenet0.25_voc", pretrained=False, pretrained_base=False)
    net.initialize(mx.init.Xavier())
    ids, scores, boxes = net(nd.random.uniform(shape=(1, 3, 128, 128)))[:3]
    assert ids.shape == scores.shape == (*boxes.shape[:-1], 1) and boxes.shape[-1] == 4
    assert np.isfinite(scores.asnumpy()).all()


@pytest.mark.slow  # test_a_detector_computes holds it for one
@pytest.mark.timeout(300)
@pytest.mark.parametrize("family", DETECTORS)
def test_every_detector_is_made(family: str) -> None:
    names = [name for name in gluoncv.model_zoo.get_model_list() if name.startswith(family)]
    made = [
        name for name in names if "custom" not in name and "int8" not in name
    ]  # these take classes, or only infer
    assert len(made) > 5
    for name in made:
        net = gluoncv.model_zoo.get_model(name, pretrained=False, pretrained_base=False)
        assert len(net.collect_params().keys()) > 50


def test_a_loop_of_training_says_nothing_of_what_is_old() -> None:
    """Not of NumPy, Python or SciPy, which plain mxnet asks for a moved name at every array it makes."""
    code = """
import numpy as np
from mxtrain.runtime import gluoncv, mx
net = gluoncv.model_zoo.get_model("cifar_resnet20_v1", classes=2)
net.initialize(mx.init.Xavier())
net.hybridize(static_alloc=True, static_shape=True)
trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-3})
metric, loss_of = mx.metric.Loss(), mx.gluon.loss.SoftmaxCrossEntropyLoss()
for step in range(3):
    data, label = mx.nd.array(np.full((2, 3, 32, 32), step)), mx.nd.array([0, 1])
    with mx.autograd.record():
        loss = loss_of(net(data), label)
    loss.backward()
    trainer.step(len(data))
    metric.update(None, [loss])
mx.nd.waitall()
assert np.isfinite(metric.get()[1])
"""
    options = [
        f"-Werror::{each}"
        for each in ("DeprecationWarning", "FutureWarning", "RuntimeWarning", "SyntaxWarning")
    ]
    done = run(code, *options)
    assert (done.returncode, done.stderr) == (0, "")
