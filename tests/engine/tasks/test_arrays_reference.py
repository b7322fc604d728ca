"""Tasks of arrays learn what a plain loop in Gluon learns from the same weights and order, without padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

from mxtrain.config import Run
from mxtrain.config.components import nets
from mxtrain.data.loading import order
from mxtrain.evaluate import evaluate
from mxtrain.fit import fit
from mxtrain.runtime import mx
from tests.support.breadth import slow_cases

BATCH, RATE = 16, 0.01


def friedman(num: int, rng: np.random.Generator) -> Any:
    """Numbers that depend on products and waves of others (Friedman, 1991), in units of their own."""
    x = rng.random((num, 8))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return [
        (100 * row + 7, 1000 + 30 * (each + noise)) for row, each, noise in zip(x, y, rng.normal(0, 0.5, num))
    ]


def waves(num: int, rng: np.random.Generator) -> Any:
    """Waves of one of three frequencies, of any phase and of 12 to 30 steps."""
    kinds = rng.integers(0, 3, num)
    found = []
    for kind, length in zip(kinds.tolist(), rng.integers(12, 31, num).tolist()):
        turns = np.arange(length) * (0.06, 0.12, 0.2)[kind] + rng.random()
        wave = 3 + np.sin(2 * np.pi * turns) + rng.normal(0, 0.2, length)
        found.append((wave.reshape(-1, 1), kind))
    return found


CASES: dict[str, tuple[str, Callable[..., Any], str]] = {
    "numbers of vectors": ("mlp:hidden=16/16", friedman, "huber:delta=2"),
    "classes of series": ("lstm:hidden=12", waves, "cross_entropy"),
}


class Plain:
    """A loop as one writes it: standardised by NumPy, samples of one length together, gluon's own loss and Trainer."""

    def __init__(self, name: str, train: Any, weights: Path):
        text, _, self.loss = CASES[name]
        self.is_classes = self.loss == "cross_entropy"
        steps = np.concatenate([np.atleast_2d(x) for x, _ in train])
        self.mean, self.deviation = steps.mean(axis=0), steps.std(axis=0)
        labels = np.array([y for _, y in train])
        self.label_mean, self.label_deviation = (0, 1) if self.is_classes else (labels.mean(), labels.std())
        shape = train[0][0].shape
        # Without a mask: each sample is computed alone, as long as it is.
        self.net = nets.build(text, inputs={"data": shape}, outputs=3 if self.is_classes else 1)
        self.net.initialize(mx.init.Xavier())
        self.net(mx.nd.zeros((1, *shape)))
        self.net.load_parameters(str(weights))
        self.net.collect_params().setattr("grad_req", "add")
        self.trainer = mx.gluon.Trainer(self.net.collect_params(), "adam", {"learning_rate": RATE})
        self.entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        self.huber = mx.gluon.loss.HuberLoss(rho=2)

    def output(self, x: Any) -> Any:
        return self.net(mx.nd.array((x - self.mean) / self.deviation))

    def loss_of(self, x: Any, y: Any) -> Any:
        if self.is_classes:
            return self.entropy(self.output(x), mx.nd.array(y))
        # Gluon's Huber is this one divided by delta.
        return 2 * self.huber(
            self.output(x), mx.nd.array((y - self.label_mean) / self.label_deviation)[:, None]
        )

    def learn(self, train: Any, epochs: int, seed: int) -> list[float]:
        losses = []
        for epoch in range(epochs):
            chosen = order.epoch_order(len(train), seed, epoch)
            for start in range(0, len(train), BATCH):
                batch = [train[place] for place in chosen[start : start + BATCH]]
                self.net.collect_params().zero_grad()
                total = 0.0
                # One backward pass for each: MXNet 1.9.1 writes beyond the memory of LSTMs of other lengths, if several
                # are recorded before it.
                for length in {len(x) for x, _ in batch}:
                    x, y = (
                        np.array(each) for each in zip(*[each for each in batch if len(each[0]) == length])
                    )
                    with mx.autograd.record():
                        loss = self.loss_of(x, y).sum()
                    loss.backward()
                    total += float(loss.asscalar())
                self.trainer.step(len(batch))
                losses.append(total / len(batch))
        return losses

    def score(self, val: Any) -> float:
        """Accuracy, or R2."""
        outputs = np.concatenate([self.output(x[None]).asnumpy() for x, _ in val])
        labels = np.array([y for _, y in val])
        if self.is_classes:
            return float((outputs.argmax(axis=1) == labels).mean())
        apart = outputs[:, 0] * self.label_deviation + self.label_mean - labels
        return float(1 - (apart**2).mean() / labels.var())


def weights_of(name: str, train: Any, seed: int, path: Path) -> Path:
    text, _, loss = CASES[name]
    shape = train[0][0].shape
    net = nets.build(text, inputs={"data": shape}, outputs=3 if loss == "cross_entropy" else 1)
    mx.random.seed(seed)
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros((1, *shape)))
    net.save_parameters(str(path))
    return path


def both(
    name: str, num: int, epochs: int, seed: int, folder: Path
) -> tuple[list[float], list[float], float, float]:
    """Train both, and return the losses of each step and the scores on held-out samples: ours, and the plain loop's."""
    text, make, loss = CASES[name]
    rng = np.random.default_rng(seed)
    train, val = make(num, rng), make(200, rng)
    weights = weights_of(name, train, seed, folder / f"{seed}.params")
    run = Run.of(
        task="arrays", model=text, loss=loss, pretrained=str(weights), out=str(folder / f"run{seed}"), log="none",
        epochs=epochs, batch_size=BATCH, micro_batch=8, optimizer="adam", lr=RATE, schedule="constant", weight_decay=0,
        seed=seed,
    )  # fmt: skip
    ours = fit(run, train=train, val=val)
    plain = Plain(name, train, weights)
    theirs = plain.learn(train, epochs, seed)
    losses = [each["loss"] for each in ours.history if each["kind"] == "train"]
    score = evaluate(ours, val=val, checkpoint="latest")
    return losses, theirs, score["val_accuracy" if plain.is_classes else "val_r2"], plain.score(val)


@pytest.mark.parametrize("name", ["classes of series", *slow_cases("numbers of vectors")])
def test_the_first_steps_are_those_of_a_plain_loop(name: str, tmp_path: Path) -> None:
    ours, theirs, score, other = both(name, 96, 2, 0, tmp_path)
    assert len(ours) == len(theirs) == 12
    np.testing.assert_allclose(ours, theirs, rtol=2e-4)
    assert score == pytest.approx(other, abs=0.01)


@pytest.mark.slow  # the first steps hold it in small
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "num", "epochs", "bar"),
    [("numbers of vectors", 480, 10, 0.8), ("classes of series", 320, 7, 0.85)],
)
def test_as_much_is_learnt_as_by_a_plain_loop(
    name: str, num: int, epochs: int, bar: float, tmp_path: Path
) -> None:
    scores = np.array([both(name, num, epochs, seed, tmp_path)[2:] for seed in range(3)])
    assert scores.mean(axis=0).min() > bar, scores
    apart = abs(scores[:, 0].mean() - scores[:, 1].mean())
    assert apart <= max(scores.std(axis=0).max(), 0.005), scores
