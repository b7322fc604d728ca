"""GluonCV's own training of an SSD: what its script for SSDs does, on a folder as Pascal VOC has it.

Its data set, transform, target generator, loss, evaluation and settings, one device, a batch as a step; anchors are
those of the net for 512 pixels in proportion, as ours are:

    python -m benchmarks.detecting.gluoncv_side OPTIONS.json

Prints a line of JSON: the images a second of each epoch, and the mean average precision after the last.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from mxtrain.runtime import mx  # repaired for today's NumPy


def main() -> None:
    options = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for seed in (mx.random.seed, np.random.seed, random.seed):
        seed(options["seed"])
    net = _net(options)
    speeds = _train(net, options)
    print(json.dumps({"speeds": speeds, **_judge(net, options)}))


def _net(options: dict[str, Any]) -> Any:
    from gluoncv.model_zoo import get_model
    from gluoncv.model_zoo.ssd import get_ssd

    size = options["size"]
    backbone = get_model("mobilenet1.0", pretrained=False, classes=options["backbone_classes"])
    backbone.load_parameters(options["backbone"])
    net = get_ssd(
        backbone,  # in the place of its name
        size,
        features=["relu22_fwd", "relu26_fwd"],
        filters=[512, 512, 256, 256],
        sizes=[each * size / 512 for each in (51.2, 102.4, 189.4, 276.4, 363.52, 450.6, 492)],
        ratios=[[1, 2, 0.5]] + [[1, 2, 0.5, 3, 1.0 / 3]] * 3 + [[1, 2, 0.5]] * 2,
        steps=[16, 32, 64, 128, 256, 512],
        classes=options["classes"],
        dataset="voc",
        pretrained=False,
        pretrained_base=False,
    )
    net.initialize()
    return net


def _data(options: dict[str, Any], split: str) -> Any:
    from gluoncv.data import VOCDetection

    class Folder(VOCDetection):
        CLASSES = tuple(name.lower() for name in options["classes"])  # as it reads them

    return Folder(root=options["root"], splits=((2007, split),))


def _train(net: Any, options: dict[str, Any]) -> list[float]:
    """Train, and return the images a second of each epoch."""
    import gluoncv
    from gluoncv.data.batchify import Stack, Tuple
    from gluoncv.data.transforms.presets.ssd import SSDDefaultTrainTransform

    size, batch_size = options["size"], options["batch_size"]
    with mx.autograd.train_mode():
        anchors = net(mx.nd.zeros((1, 3, size, size)))[2]
    data = _data(options, options["train"])
    batches = mx.gluon.data.DataLoader(
        data.transform(SSDDefaultTrainTransform(size, size, anchors)),
        batch_size,
        True,
        batchify_fn=Tuple(Stack(), Stack(), Stack()),
        last_batch="rollover",
        num_workers=options["num_workers"],
        timeout=options["deadline"],  # of a batch; a job that is stopped for a while goes on
    )
    settings = {"learning_rate": options["lr"], "wd": options["weight_decay"]}
    trainer = mx.gluon.Trainer(net.collect_params(), options["optimizer"], settings)
    loss = gluoncv.loss.SSDMultiBoxLoss()
    net.hybridize(static_alloc=True, static_shape=True)
    speeds = []
    for epoch in range(options["epochs"]):
        if epoch in options["lower_rate_at"]:
            trainer.set_learning_rate(trainer.learning_rate * 0.1)
        start, count = time.perf_counter(), 0
        for batch in batches:  # in memory that processes share
            pictures, class_targets, box_targets = (each.as_in_context(mx.cpu()) for each in batch)
            with mx.autograd.record():
                class_scores, boxes, _ = net(pictures)
                total, _, _ = loss([class_scores], [boxes], [class_targets], [box_targets])
            mx.autograd.backward(total)
            trainer.step(1)
            count += len(pictures)
        mx.nd.waitall()
        speeds.append(count / (time.perf_counter() - start))
        print(f"epoch {epoch + 1}: {speeds[-1]:.1f} images/s", file=sys.stderr, flush=True)
    return speeds


def _judge(net: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the mean average precision on the test set, as Pascal VOC 2012 counts, and that of each class.

    Boxes are judged in pixels of the pictures as they came, as Pascal VOC's rule adds one of these to each side.
    """
    from gluoncv.data.batchify import Pad, Stack, Tuple
    from gluoncv.data.transforms.presets.ssd import SSDDefaultValTransform
    from gluoncv.utils.metrics.voc_detection import VOCMApMetric

    size = options["size"]
    metric = VOCMApMetric(iou_thresh=0.5, class_names=options["classes"])
    transform = SSDDefaultValTransform(size, size)

    def with_factors(picture: Any, boxes: Any) -> tuple[Any, Any, Any]:
        height, width = picture.shape[:2]
        return (*transform(picture, boxes), np.array([width / size, height / size] * 2, np.float32))

    batches = mx.gluon.data.DataLoader(
        _data(options, options["val"]).transform(with_factors),
        options["batch_size"],
        batchify_fn=Tuple(Stack(), Pad(pad_val=-1), Stack()),
        last_batch="keep",
    )
    net.set_nms(nms_thresh=0.45, nms_topk=400)
    net.hybridize(static_alloc=True, static_shape=True)
    for batch in batches:
        pictures, labels, factors = (each.as_in_context(mx.cpu()) for each in batch)
        ids, scores, boxes = net(pictures)
        factors = factors.expand_dims(1)
        metric.update(
            mx.nd.broadcast_mul(boxes.clip(0, size), factors),
            ids,
            scores,
            mx.nd.broadcast_mul(labels.slice_axis(axis=-1, begin=0, end=4), factors),
            labels.slice_axis(axis=-1, begin=4, end=5),
            labels.slice_axis(axis=-1, begin=5, end=6),
        )
    names, values = metric.get()
    return {"map": float(values[-1]), "classes": dict(zip(names[:-1], map(float, values)))}


if __name__ == "__main__":
    main()
