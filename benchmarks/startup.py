"""Start-up: from the command to the end of the first step, without the time that a later step takes.

    python -m benchmarks.startup

Two nets, two sides: `mxtrain.fit`, which reads and decodes a .rec file and keeps a run folder, and the same step in
plain Gluon on an array of zeros, after plain `import mxnet` and `import gluoncv`. Each start is a process of its own,
the sides take turns, and medians are printed, with the phases that our own start is made of.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

from benchmarks.harness import commands, parsing, pictures, processes
from benchmarks.harness.rounds import in_turns, medians
from benchmarks.harness.tables import markdown

NETS = {"resnet18_v1b": 224, "small_cnn": 28}  # and the size of their pictures
BATCH_SIZE, CLASSES, STEPS = 32, 4, 3
DEADLINE_SECONDS = 120
Mark = tuple  # (name, seconds since the process was started, its CPU seconds), at the end of a phase


def main() -> int:
    parser = parsing.parser("startup", __doc__, rounds=5)
    parser.add_argument("--nets", nargs="+", choices=NETS, default=list(NETS))
    parser.add_argument(
        "--side", nargs=4, metavar=("SIDE", "NET", "SECONDS", "FOLDER"), help="measure one start"
    )
    options = parser.parse_args()
    if options.side:
        side, net, started, folder = options.side
        SIDES[side](net, float(started), Path(folder))
        return 0
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        source = pictures.write(folder / "pictures", 2 * BATCH_SIZE, 400, 300, CLASSES)
        commands.pack(source, folder / "t.rec")
        for net in options.nets:
            turns = {side: lambda side=side, net=net: start(side, net, folder) for side in SIDES}
            # In the first round files come into memory, and the operators' functions into their file.
            found = in_turns(turns, options.rounds, warm_up=1)
            print(table(net, found), flush=True)
    return 0


def start(side: str, net: str, folder: Path) -> list[Mark]:
    """Start one side in a process of its own and return its marks."""
    line = (sys.executable, "-m", "benchmarks.startup", "--side", side, net, repr(time.monotonic()), folder)
    return [tuple(mark) for mark in processes.run(*line, deadline_seconds=DEADLINE_SECONDS).answer]


class Marks:
    """The marks of this process, which was started at `started` of the machine's monotonic clock."""

    def __init__(self, started: float):
        self.started, self.marks = started, []

    def add(self, name: str) -> None:
        self.marks.append((name, time.monotonic() - self.started, time.process_time()))

    def after(
        self, module: Any, function: str, name: str, and_then: Callable[[], None] | None = None
    ) -> None:
        """Put a mark behind the first call of a module's function, or behind each "step", and call `and_then`."""
        inner = getattr(module, function)

        def marked(*given: Any, **named: Any) -> Any:
            if name != "step":
                setattr(module, function, inner)
            result = inner(*given, **named)
            self.add(name)
            if and_then is not None:
                and_then()
            return result

        setattr(module, function, marked)

    def end(self) -> None:
        """Print all, and end the process once the steps are done."""
        if sum(name == "step" for name, *_ in self.marks) == STEPS:
            print(json.dumps(self.marks), flush=True)
            os._exit(0)


def of_mxtrain(net: str, started: float, folder: Path) -> None:
    marks = Marks(started)
    from mxtrain import config, fit, runtime
    from mxtrain.checkpoint import resume

    marks.add("Python, numpy, the command's modules")

    def of_training() -> None:
        from mxtrain.models.nets import zoo
        from mxtrain.models.parameters import initializers
        from mxtrain.train import loop

        marks.add("modules of the training")
        marks.after(zoo, "build", "net, with its module of gluoncv")
        marks.after(initializers, "initialize", "initial weights (MXNet draws most of them later)")
        marks.after(zoo, "compile", "shapes, weights drawn, graph")
        marks.after(loop, "train_step", "step", marks.end)

    marks.after(config, "parse", "flags")
    marks.after(resume, "find", "checks, data opened, run folder")
    marks.after(runtime, "load", "mxnet", of_training)
    flags = ("--model", net, "--image-size", NETS[net], "--batch-size", BATCH_SIZE, "--max-steps", STEPS)
    quiet = ("--resume", "never", "--log", "none", "--log-level", "warning")
    sys.argv[1:] = map(
        str, ("--train", folder / "t.rec", *flags, *quiet, "--out", folder / f"run{os.getpid()}")
    )
    fit.main()


def of_gluon(net: str, started: float, folder: Path) -> None:
    marks = Marks(started)
    import numpy

    numpy.bool = bool  # without this alias the import fails with NumPy >= 1.24
    import mxnet as mx

    marks.add("mxnet")
    if net == "small_cnn":
        made = mx.gluon.nn.HybridSequential()
        for channels in (16, 32):
            made.add(
                mx.gluon.nn.Conv2D(channels, 3, padding=1),
                mx.gluon.nn.BatchNorm(),
                mx.gluon.nn.Activation("relu"),
                mx.gluon.nn.MaxPool2D(),
            )
        made.add(mx.gluon.nn.Dense(CLASSES))
    else:
        from gluoncv import model_zoo

        made = model_zoo.get_model(net, classes=CLASSES)
    made.initialize(mx.init.MSRAPrelu(slope=0))
    made.hybridize(static_alloc=True, static_shape=True)
    marks.add("net")
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(made.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    data, label = mx.nd.zeros((BATCH_SIZE, 3, NETS[net], NETS[net])), mx.nd.zeros((BATCH_SIZE,))
    while True:
        with mx.autograd.record():
            losses = loss_of(made(data), label)
        losses.backward()
        trainer.step(BATCH_SIZE)
        losses.asnumpy()
        mx.nd.waitall()
        marks.add("step")
        marks.end()


SIDES = {"mxtrain": of_mxtrain, "gluon": of_gluon}


def phases(marks: list[Mark]) -> dict[str, tuple[float, float]]:
    """Return the wall and CPU seconds of each phase of one start; the first step without what the others take."""
    found: dict[str, tuple[float, float]] = {}
    steps: list[tuple[float, float]] = []
    before = (0.0, 0.0)
    for name, *seconds in marks:
        taken = (seconds[0] - before[0], seconds[1] - before[1])
        before = (seconds[0], seconds[1])
        if name == "step":
            steps.append(taken)
        else:
            found[name] = tuple(map(sum, zip(found.get(name, (0.0, 0.0)), taken)))  # type: ignore[assignment]
    first, *later = steps
    found["first step, more than a later one"] = tuple(a - min(b) for a, b in zip(first, zip(*later)))  # type: ignore[assignment]
    return found


def table(net: str, found: dict[str, list[list[Mark]]]) -> str:
    """Return the phases and the totals of all starts, medians, as a table in Markdown."""
    starts = {side: [phases(marks) for marks in each] for side, each in found.items()}
    title = (
        f"{net}, pictures of {NETS[net]}, batch {BATCH_SIZE}, {len(os.sched_getaffinity(0))} cores, "
        f"medians of {len(starts['mxtrain'])}"
    )
    times = {name: medians(each[name] for each in starts["mxtrain"]) for name in starts["mxtrain"][0]}
    ours, plain = (
        medians(tuple(map(sum, zip(*each.values()))) for each in starts[side])
        for side in ("mxtrain", "gluon")
    )
    times.update({"**mxtrain**": ours, "**plain Gluon**, no data": plain})
    times["ratio"] = tuple(of_ours / of_plain for of_ours, of_plain in zip(ours, plain))
    rows = [(name, f"{wall:.2f}", f"{cpu:.2f}") for name, (wall, cpu) in times.items()]
    return f"{title}\n\n{markdown(['from the command to the first step', 'wall, s', 'CPU, s'], rows)}\n"


if __name__ == "__main__":
    raise SystemExit(main())
