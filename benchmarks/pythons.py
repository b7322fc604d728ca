"""Installation and main parts of mxtrain in fresh environments: Pythons, both NumPys, wheel, sdist, checkout, Debians.

    python -m benchmarks.pythons [--only TEXT] [--jobs 2] [--write docs/pythons.md]

What is installed is the last commit of this checkout, into an environment that goes away again. Each part runs in a
process of its own with a deadline, outside of the checkout. The rows of Debian need root and mmdebstrap, and work
inside as a user without root. A row whose Python is not on this machine is left out and said. Exits with 1 where
anything fails.
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, NamedTuple

CHECKOUT = Path(__file__).resolve().parents[1]
INSTALL_SECONDS, PART_SECONDS, MAKE_SECONDS = 900, 300, 1800


class Row(NamedTuple):
    """A Python, the NumPy that is there first or that pip takes, what is installed from, and on what machine."""

    python: str
    numpy: str
    source: str
    compiler: bool = True
    debian: str = ""

    def name(self) -> str:
        place = f"Debian {self.debian}, no root" if self.debian else "this machine"
        return f"{place}: Python {self.python}, NumPy {self.numpy}, {self.source}"


# Each value once, and the pairs that matter: the newest Python from each source, both NumPys on 3.11 and 3.12.
ROWS = (
    Row("3.13", "2", "wheel"),
    Row("3.12", "2", "sdist"),
    Row("3.8", "1", "wheel"),
    Row("3.11", "1", "sdist"),
    Row("3.9", "2", "wheel", compiler=False),
    Row("3.10", "1", "wheel", compiler=False),
    Row("3.11", "2", "wheel"),
    Row("3.12", "1", "wheel"),
    Row("3.13", "2", "sdist", compiler=False),
    Row("3.13", "2", "checkout"),
    Row("3.13", "2", "checkout", compiler=False, debian="trixie"),
    Row("3.11", "1", "checkout", compiler=False, debian="bookworm"),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="only the rows with this in their name")
    parser.add_argument("--jobs", type=int, default=1, help="rows at a time")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table there, too")
    parser.add_argument("--part", choices=PARTS, help="run this part in this process")
    arguments = parser.parse_args()
    if arguments.part:
        PARTS[arguments.part][1]()
        return 0
    rows = [row for row in ROWS if arguments.only in row.name()]
    lines = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for line in filter(None, pool.map(line_of, rows)):
            lines.append(line)
            print(" | ".join(line), flush=True)
            if arguments.write:
                arguments.write.write_text(markdown(lines))
    return 0 if lines and all(cell.startswith("ok") for line in lines for cell in line[6:]) else 1


def line_of(row: Row) -> list[str] | None:
    """Return a row's line of the table; None, said, where its Python is not on this machine."""
    if row.debian:
        from benchmarks import debian_root  # not in the processes of the parts, which see no checkout

        examined = debian_root.examine
    elif interpreter(row.python) is None:
        print(f"{row.name()}: left out, there is no Python {row.python} on this machine", flush=True)
        return None
    else:
        examined = examine
    with tempfile.TemporaryDirectory() as folder:
        return [*described(row), *examined(row, Path(folder))]


def described(row: Row) -> list[str]:
    place = f"Debian's {row.debian}, minbase" if row.debian else "any"
    return [row.source, place, "no" if row.debian else "yes", "yes" if row.compiler else "no"]


def interpreter(version: str) -> str | None:
    """Return the newest Python of a minor version, on PATH or among pyenv's; None if there is none."""
    pyenv, name = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")), f"python{version}"
    among = sorted(map(str, pyenv.glob(f"versions/{version}.*/bin/{name}")), reverse=True)
    for path in [*filter(None, [shutil.which(name)]), *among]:
        # pyenv's shims are on PATH for versions that they then refuse to run.
        asked = subprocess.run([path, "-c", "import ensurepip"], capture_output=True, timeout=PART_SECONDS)
        if asked.returncode == 0:
            return path
    return None


def examine(row: Row, folder: Path) -> list[str]:
    """Install and test as a row says, and return the versions and outcomes for its line of the table."""
    source, environment, work = folder / "source", folder / "environment", folder / "work"
    work.mkdir()
    last_commit(source)
    python = str(interpreter(row.python))
    inner = str(environment / "bin" / "python")
    compiler = {} if row.compiler else {"CC": "false"}
    try:
        if row.source == "checkout":
            make = ["make", f"PYTHON={python}", f"VENV={environment}", f"DEMO={folder / 'demo'}", "demo"]
            run(make, source, MAKE_SECONDS, compiler)
        else:
            install(row, python, source, environment, compiler)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return ["", "", *[f"not installed: {last_words(error)}"] * len(PARTS)]
    code = "import platform, cv2, numpy; print(platform.python_version(), numpy.__version__, cv2.__version__)"
    versions = run([inner, "-c", code], work, PART_SECONDS).stdout.split()
    return [
        f"{versions[0]}, NumPy {versions[1]}",
        versions[2],
        *(outcome([inner, __file__, "--part", part], work) for part in PARTS),
    ]


def last_commit(folder: Path) -> None:
    """Write the files of this checkout's last commit into a folder."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=CHECKOUT, stdout=subprocess.PIPE, check=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder)


def install(row: Row, python: str, source: Path, environment: Path, compiler: dict[str, str]) -> None:
    """Install as README says: `[cpu]` by pip alone with NumPy 1; else mxtrain, and the engine by doctor."""
    folder = source.parent
    run([python, "-m", "venv", str(environment)], folder, INSTALL_SECONDS)
    inner = str(environment / "bin" / "python")
    pip = [inner, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--upgrade", "pip>=23", "setuptools>=64", "wheel"], folder, INSTALL_SECONDS)
    build = f"import setuptools.build_meta as b; print(b.build_{row.source}({str(folder)!r}))"
    built = folder / run([inner, "-c", build], source, INSTALL_SECONDS, compiler).stdout.split()[-1]
    if row.numpy == "2":
        run([*pip, "numpy>=2", str(built)], folder, INSTALL_SECONDS, compiler)
        run([inner, "-m", "mxtrain.doctor", "--install", "cpu"], folder, INSTALL_SECONDS)
    else:
        run([*pip, f"{built}[cpu]"], folder, INSTALL_SECONDS, compiler)


def run(
    command: list[str], folder: Path, seconds: float, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    # The checkout must not be importable: what is tested is what was installed.
    neutral = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command,
        cwd=folder,
        env={**neutral, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=True,
    )


def outcome(command: list[str], folder: Path, seconds: float = PART_SECONDS) -> str:
    """Run a command, and return 'ok' or what went wrong, as a cell of the table."""
    try:
        run(command, folder, seconds)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return last_words(error)
    return "ok"


def last_words(error: subprocess.CalledProcessError | subprocess.TimeoutExpired) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"not done after {error.timeout:.0f} s"
    said = (error.stderr or error.stdout or "").strip().splitlines()
    return (said or [f"exit code {error.returncode}"])[-1].replace("|", "/")[:120]


def markdown(lines: list[list[str]]) -> str:
    columns = [
        "from",
        "machine",
        "root",
        "compiler",
        "Python",
        "OpenCV",
        *(title for title, _ in PARTS.values()),
    ]
    table = "\n".join("| " + " | ".join(line) + " |" for line in [columns, ["---"] * len(columns), *lines])
    return f"""# Pythons, NumPys and machines

Made by `python -m benchmarks.pythons`: for each row a fresh environment with the last commit in it, then each part in a
process of its own, outside of the checkout. With NumPy 1 pip installs `mxtrain[cpu]`; with NumPy 2 it installs
`mxtrain`, and `python -m mxtrain.doctor --install cpu` the rest. A checkout is installed by `make demo`, and trains.
The machines of Debian hold `python3`, `python3-venv`, `make` and certificates, and nothing else that mxtrain needs;
there a user without root does it all.

{table}

3.7 and older have no NumPy 1.23.5, from which on the door is proven, and of 3.14 there was none at hand:
`requires-python` refuses them at install time.
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
