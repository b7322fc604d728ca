"""Jobs of `mxtrain.fit` and of PyTorch's FSDP2 on the same net, and what they took."""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import statistics
import sys
from pathlib import Path
from typing import NamedTuple, Sequence

from benchmarks.harness import commands, environments, groups, job_memory
from benchmarks.harness.groups import Process, ProcessGroup
from mxtrain.config.components import nets
from mxtrain.data.text import tokenizers

MICRO_BATCH, NUM_WORKERS, WARM_STEPS = 1, 2, 2
ENVIRONMENT = "torch"
# As --remat and --hold layers set it for themselves: glibc gives freed memory back that is larger.
GIVING_BACK = {"MALLOC_MMAP_THRESHOLD_": str(1 << 19)}


class Job(NamedTuple):
    """Measured of a job: bytes of its fullest worker and server, seconds of its steps, a checksum of its weights."""

    worker: int
    server: int  # 0 without one
    mapped: int  # of the server, in files of --store-dir
    seconds: Sequence[float]
    num_tokens: int  # of a step, of all workers
    weights: str

    @property
    def total(self) -> int:
        """The bytes of all processes that hold parts of the net."""
        return NUM_WORKERS * self.worker + self.server

    @property
    def speed(self) -> float:
        """Tokens a second, over the steps after the first ones."""
        steady = self.seconds[WARM_STEPS:] or self.seconds
        return self.num_tokens / statistics.median(steady)

    def in_words(self) -> str:
        """Return what it took, in a line."""
        worker, server = self.worker / 1e6, self.server / 1e6
        return f"worker {worker:.0f} MB, server {server:.0f} MB, {self.speed:.1f} tokens/s"


def text(folder: Path, window: int, num_windows: int) -> Path:
    """Return a .rec of random letters, enough for so many windows."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = random.Random(0)
    document = ["".join(letters.choices("abcdefgh ", k=window)) for _ in range(num_windows + 1)]
    (folder / "text.txt").write_text("\n\n".join(document), encoding="utf-8")
    shutil.rmtree(folder / "rec", ignore_errors=True)
    commands.pack(folder / "text.txt", folder / "rec", "--tokenizer", "bytes", "--quiet")
    return folder / "rec" / "data.rec"


def run(out: Path, train: Path, options: argparse.Namespace, flags: Sequence[str], steps: int) -> Job:
    """Run a job of ours up to so many steps, from where `out` stands; return what it took."""
    batch = NUM_WORKERS * options.micro_batches * MICRO_BATCH
    line = [
        *(sys.executable, "-m", "mxtrain.fit", "--task", "lm", "--model", options.model),
        *("--window", str(options.window), "--train", str(train), "--batch-size", str(batch)),
        *(
            "--micro-batch",
            str(MICRO_BATCH),
            "--max-steps",
            str(steps),
            "--optimizer",
            "adam",
            "--lr",
            "1e-4",
        ),
        *("--threads", "1", "--sample-steps", "0", "--log", "none", "--keep-last", "1", "--keep-best", "0"),
        *("--kvstore", "dist_sync", "--num-workers", str(NUM_WORKERS), "--out", str(out)),
        *("--stall-timeout", "1000", "--start-timeout", "300", *flags),
    ]
    before = len(commands.records(out, "train")) if out.exists() else 0
    largest = job_memory.largest(line, options.deadline)
    seconds = [record["seconds"] for record in commands.records(out, "train")[before:]]
    (weights,) = out.glob(f"checkpoints/*{steps}/weights.params")
    return Job(
        largest["worker"],
        largest["server"],
        largest["mapped"],
        seconds,
        batch * options.window,
        _checksum(weights),
    )


def run_fsdp(options: argparse.Namespace, is_giving_back: bool) -> Job:
    """Train the same net as long by PyTorch's FSDP2; return what it took."""
    python = environments.pytorch(options.envs, ENVIRONMENT, "larger")
    numbers = nets.parse(options.model).hyperparameters
    job = {
        "vocabulary": tokenizers.of_bytes().vocab_size,
        "window": options.window,
        "windows": options.micro_batches * MICRO_BATCH,
        "steps": options.steps,
        "net": {name: numbers[name] for name in ("layers", "heads", "width")},
    }
    line = [python, "-m", "benchmarks.larger.fsdp_side"]
    port, environment = (
        groups.free_port(),
        {"GLOO_SOCKET_IFNAME": "lo", **(GIVING_BACK if is_giving_back else {})},
    )
    ranks = [
        Process([*line, rank, NUM_WORKERS, port, json.dumps(job)], environment) for rank in range(NUM_WORKERS)
    ]
    with ProcessGroup(ranks, NUM_WORKERS) as group:
        found = [json.loads(output.splitlines()[-1]) for output in group.end(options.deadline)]
    seconds = [max(steps) for steps in zip(*(each["seconds"] for each in found))]
    worker = max(each["bytes"] for each in found)
    return Job(worker, 0, 0, seconds, NUM_WORKERS * job["windows"] * options.window, "")


def _checksum(path: Path) -> str:
    checksum = hashlib.sha256()
    with path.open("rb") as file:
        for piece in iter(lambda: file.read(1 << 24), b""):
            checksum.update(piece)
    return checksum.hexdigest()
