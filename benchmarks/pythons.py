"""Installation and main parts of mxtrain under every supported Python of this machine, in fresh environments.

    python benchmarks/pythons.py [--write docs/pythons.md] [--tests]

What is installed is the last commit of this checkout, with [cpu,dev], into an environment that goes away again.
Each part runs in a process of its own with a deadline, outside of the checkout. --tests also runs README's two
commands with each Python. Exits with 1 where anything fails.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Callable

CHECKOUT = Path(__file__).resolve().parents[1]
MINORS = range(8, 13)
INSTALL_SECONDS, PART_SECONDS, MAKE_SECONDS = 900, 120, 1800


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table there, too")
    parser.add_argument("--tests", action="store_true", help="run make demo and make test as well")
    parser.add_argument("--part", choices=PARTS, help="run this part in this process")
    arguments = parser.parse_args()
    if arguments.part:
        PARTS[arguments.part][1]()
        return 0
    columns = ["Python", "NumPy", "OpenCV", *(title for title, _ in PARTS.values())]
    columns += ["make demo", "make test"] if arguments.tests else []
    rows = []
    for python in pythons():
        with tempfile.TemporaryDirectory() as folder:
            rows.append(examine(python, Path(folder), arguments.tests))
            print(" | ".join(rows[-1]), flush=True)
    page = markdown(columns, rows)
    print(page)
    if arguments.write:
        arguments.write.write_text(page)
    return 0 if rows and all(cell.startswith("ok") for row in rows for cell in row[3:]) else 1


def pythons() -> list[str]:
    """Return the newest interpreter of each supported minor version, on PATH or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = []
    for minor in MINORS:
        name = f"python3.{minor}"
        on_path = [path for path in [shutil.which(name)] if path]
        for path in on_path + sorted(map(str, pyenv.glob(f"versions/3.{minor}.*/bin/{name}")), reverse=True):
            # pyenv's shims are on PATH for versions that they then refuse to run.
            asked = subprocess.run(
                [path, "-c", "import ensurepip"], capture_output=True, timeout=PART_SECONDS
            )
            if asked.returncode == 0:
                found.append(path)
                break
    return found


def examine(python: str, folder: Path, tests: bool) -> list[str]:
    """Install and test with one Python, and return its row of the table."""
    source, environment = folder / "source", folder / "environment"
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=CHECKOUT, stdout=subprocess.PIPE, check=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(source)
    inner = str(environment / "bin" / "python")
    version = said_by([python, "-c", "import platform; print(platform.python_version())"], folder)
    try:
        run([python, "-m", "venv", str(environment)], folder, INSTALL_SECONDS)
        pip = [inner, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "--upgrade", "pip>=23"], folder, INSTALL_SECONDS)
        run([*pip, f"{source}[cpu,dev]"], folder, INSTALL_SECONDS)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return [version, "", "", *[f"not installed: {last_words(error)}"] * len(PARTS)]
    versions = said_by([inner, "-c", "import cv2, numpy; print(numpy.__version__, cv2.__version__)"], folder)
    row = [version, *versions.split()]
    row += [outcome([inner, __file__, "--part", part], folder, PART_SECONDS) for part in PARTS]
    if tests:
        make = ["make", f"PYTHON={python}", f"VENV={folder / 'made'}", f"DEMO={folder / 'demo'}"]
        row += [outcome([*make, target], source, MAKE_SECONDS, timed=True) for target in ("demo", "test")]
    return row


def run(command: list[str], folder: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    # The checkout must not be importable: what is tested is what was installed.
    neutral = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command, cwd=folder, env=neutral, capture_output=True, text=True, timeout=seconds, check=True
    )


def said_by(command: list[str], folder: Path) -> str:
    return run(command, folder, PART_SECONDS).stdout.strip()


def outcome(command: list[str], folder: Path, seconds: float, timed: bool = False) -> str:
    """Run a command, and return 'ok' or what went wrong, as a cell of the table."""
    started = time.monotonic()
    try:
        run(command, folder, seconds)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return last_words(error)
    return f"ok, {time.monotonic() - started:.0f} s" if timed else "ok"


def last_words(error: subprocess.CalledProcessError | subprocess.TimeoutExpired) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"not done after {error.timeout:.0f} s"
    said = (error.stderr or error.stdout or "").strip().splitlines()
    return (said or [f"exit code {error.returncode}"])[-1].replace("|", "/")[:120]


def markdown(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"""# Supported Pythons

Made by `python -m benchmarks.pythons`: for each Python on the machine a fresh environment, `pip install '.[cpu,dev]'`
of the last commit, then each part in a process of its own, outside of the checkout.

{table}

3.7 and older have no NumPy 1.23.5, from which on the shims of `mxtrain/runtime.py` are proven, and 3.13 has no wheel of
a NumPy below 2, which MXNet 1.9.1 needs: `requires-python` refuses them at install time.
"""


def import_through_the_door() -> None:
    from mxtrain.runtime import gluoncv, mx

    assert mx.__version__ == "1.9.1"
    assert gluoncv.model_zoo.get_model_list()


def train_a_step() -> None:
    from mxtrain.runtime import mx

    net = mx.gluon.nn.HybridSequential()
    net.add(
        mx.gluon.nn.Conv2D(8, 3),
        mx.gluon.nn.BatchNorm(),
        mx.gluon.nn.Activation("relu"),
        mx.gluon.nn.Dense(2),
    )
    net.initialize()
    net.hybridize(static_alloc=True, static_shape=True)
    losses = _train(mx, net, mx.nd.random.uniform(shape=(16, 3, 16, 16)), mx.nd.arange(16) % 2, num_steps=20)
    assert losses[-1] < losses[0] / 2, losses


def train_a_gluoncv_model() -> None:
    from mxtrain.runtime import gluoncv, mx

    net = gluoncv.model_zoo.get_model("resnet18_v1b", classes=2)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    losses = _train(mx, net, mx.nd.random.uniform(shape=(4, 3, 64, 64)), mx.nd.arange(4) % 2, num_steps=10)
    assert losses[-1] < losses[0], losses


def _train(mx, net, data, labels, num_steps: int) -> list[float]:
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9})
    losses = []
    for _ in range(num_steps):
        with mx.autograd.record():
            loss = loss_of(net(data), labels)
        loss.backward()
        trainer.step(len(data))
        losses.append(loss.mean().asscalar().item())
    return losses


def load_with_gluon(threads: bool) -> None:
    import numpy as np

    from mxtrain.runtime import mx

    samples = np.arange(96, dtype=np.float32).reshape(24, 4)
    dataset = mx.gluon.data.ArrayDataset(samples, np.arange(24))
    loader = mx.gluon.data.DataLoader(dataset, batch_size=5, num_workers=2, thread_pool=threads)
    batches = [data.asnumpy() for data, _ in loader]
    np.testing.assert_array_equal(np.concatenate(batches), samples)


def load_with_ours() -> None:
    """Pack pictures and load them with one thread, two, and two processes: the batches are the same."""
    import numpy as np

    from mxtrain.core.opencv import cv2
    from mxtrain.data import order
    from mxtrain.data.assembly import SampleAssembly
    from mxtrain.data.augment import train_transform
    from mxtrain.data.loader import Loader, LoaderOptions, Request
    from mxtrain.data.record_file import open_records

    images = Path("images")
    for number in range(24):
        (images / str(number % 2)).mkdir(parents=True, exist_ok=True)
        picture = np.random.default_rng(number).integers(0, 255, (40, 48, 3), np.uint8)
        cv2.imwrite(str(images / str(number % 2) / f"{number}.jpg"), picture)
    pack = [sys.executable, "-m", "im2rec_wrapper", "pack", str(images), "data.rec"]
    subprocess.run(pack, check=True, timeout=PART_SECONDS)
    assembly = SampleAssembly(open_records("data.rec"), train_transform("resized_crop+flip", 32), seed=1)
    seen = []
    for options in (
        LoaderOptions("threads", "1"),
        LoaderOptions("threads", "2"),
        LoaderOptions("processes", "2"),
    ):
        epoch = order.epoch_order(len(assembly.records), seed=1, epoch=0)
        requests = [Request(step, 0, 0, order.step_samples(epoch, step, 8)) for step in range(3)]
        with Loader(assembly, (3, 32, 32), requests, options) as loader:
            seen.append(np.concatenate([batch.data.copy() for batch in loader]))
    assert seen[0].shape == (24, 3, 32, 32)
    for others in seen[1:]:
        np.testing.assert_array_equal(others, seen[0])


PARTS: dict[str, tuple[str, Callable[[], None]]] = {
    "door": ("door", import_through_the_door),
    "step": ("training step", train_a_step),
    "model": ("GluonCV model", train_a_gluoncv_model),
    "processes": ("DataLoader, processes", lambda: load_with_gluon(threads=False)),
    "threads": ("DataLoader, threads", lambda: load_with_gluon(threads=True)),
    "loader": ("our loader", load_with_ours),
}


if __name__ == "__main__":
    raise SystemExit(main())
