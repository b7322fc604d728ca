"""A run folder with records of every kind, as docs/records.md has them, without a run: for readers of it."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any, Iterator

START = 1_760_000_000.0
STAGES = {
    "split": 0.0002,
    "load": 0.02,
    "compute": 0.06,
    "synchronize": 0.006,
    "update": 0.004,
    "other": 0.001,
}


def write(
    folder: Path, steps: int = 200, epochs: int = 4, classes: list[str] | None = None, **config: Any
) -> Path:
    """Write a run of these steps into `folder`, which has been restarted once, in its middle."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ["dial", "fork", "knife", "lamp", "spoon"] if classes is None else classes
    with (folder / "metrics.jsonl").open("w") as file:
        for record in records(steps, epochs, len(names)):
            file.write(json.dumps(record) + "\n")
    described = {"task": "classification", "val": "val.rec", "lr": 0.1, "batch_size": 64, **config}
    (folder / "config.yaml").write_text(
        "".join(f"{key}: {json.dumps(described[key])}\n" for key in described)
    )
    environment = {
        **{"command": ["python", "-m", "mxtrain.fit", "--lr", "0.1"], "python": "3.11.7", "host": "alpha"},
        **{"mxtrain": "0.1.0", "wheels": {"mxnet": "1.9.1", "numpy": "1.26.4"}},
    }
    (folder / "environment.json").write_text(json.dumps(environment))
    checkpoint = folder / "checkpoints" / f"step-{steps:08d}"
    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / "state.json").write_text(
        json.dumps({"description": {"class_names": names}, "scored_by": "accuracy"})
    )
    return folder


def records(steps: int, epochs: int, classes: int) -> Iterator[dict[str, Any]]:
    """Yield the records of such a run."""
    rng, now = random.Random(1), START
    at = {"step": 0, "epoch": 1}
    versions = {"mxtrain": "0.1.0", "mxnet": "1.9.1"}

    def event(name: str, text: str, **more: Any) -> dict[str, Any]:
        return {"kind": "event", **at, "time": now, "event": name, "text": text, **more}

    yield event("start", "started on alpha", attempt=1, initialise_seconds=1.5, versions=versions)
    for step in range(1, steps + 1):
        at = {"step": step, "epoch": (step - 1) * epochs // steps + 1}
        if step == steps // 2:
            yield event("stop", "worker 1 on beta died", reason="worker 1 on beta died")
            now += 20
            text = "worker 1 on beta died; going on behind step 80"
            yield event("restart", text, attempt=2, initialise_seconds=1.1, lost_steps=7, lost_seconds=0.9)
        stages = {f"{name}_seconds": seconds * rng.uniform(0.8, 1.2) for name, seconds in STAGES.items()}
        seconds = sum(stages.values())
        now += seconds
        share = step / steps
        record = {
            **{"kind": "train", **at, "time": now, "loss": 2.3 * math.exp(-3 * share) + rng.uniform(0, 0.3)},
            **{"lr": 0.05 * (1 + math.cos(math.pi * share)), "accuracy": min(1, share + rng.uniform(0, 0.1))},
            **{"gradient_norm": rng.uniform(1, 2), "images_per_second": 64 / seconds, "seconds": seconds},
            **{"loss_scale": 2.0 ** (10 + step // 60), **stages},
        }
        if step in (2, 5, 10, 20) or step % 50 == 0:
            computing = stages["compute_seconds"]
            parts = {"forward_seconds": 0.4, "loss_seconds": 0.05, "backward_seconds": 0.55}
            record.update(sampled=True, **{name: part * computing for name, part in parts.items()})
            yield record
            yield from _sampled(at, now, rng)
        else:
            yield record
        if step * epochs % steps == 0:
            yield {
                **{"kind": "eval", **at, "time": now, "val_loss": 2.2 * math.exp(-2 * share) + 0.2},
                **{
                    "val_accuracy": 0.9 * share,
                    "val_top5_accuracy": 0.95,
                    "seconds": 1.5,
                    "num_samples": 100,
                },
            }
            yield from _of_evaluation(at, now, classes, rng)
            yield event("checkpoint", f"checkpoint of step {step}", seconds=0.2)
            now += 1.7
    yield event("bad_record", "train.rec: record 17 is damaged, skipped")
    yield event("end", "all epochs are done")


def _sampled(at: dict[str, int], now: float, rng: random.Random) -> Iterator[dict[str, Any]]:
    names = ["conv0_weight", "conv0_bias", "dense0_weight", "dense0_bias"]

    def each(size: float) -> dict[str, float]:
        return {name: size * rng.uniform(0.5, 2) / (1 + i) for i, name in enumerate(names)}

    lengths = {"gradients": each(1), "weights": each(10), "updates": each(0.01)}
    yield {
        "kind": "layers",
        **at,
        "time": now,
        **lengths,
        "zero_rows": {"conv0_weight": 0.1, "dense0_weight": 0.0},
    }
    seconds = {f"{name}_seconds": seconds for name, seconds in STAGES.items() if name != "other"}
    workers = [
        {
            **{
                "rank": rank,
                "host": ("alpha", "beta")[rank],
                **seconds,
                "cpu_percent": 90.0,
                "rss_bytes": 1e9,
            },
            **{"compute_seconds": 0.06 + 0.02 * rank, "synchronize_seconds": 0.026 - 0.02 * rank},
        }
        for rank in (0, 1)
    ]
    yield {"kind": "workers", **at, "time": now, "workers": workers}
    rates = ("disk_read", "disk_write", "network_in", "network_out")
    yield {
        **{"kind": "system", **at, "time": now, "host": "alpha", "cpu_percent": rng.uniform(60, 90)},
        **{"process_cpu_percent": 150.0, "rss_bytes": 2e9, "memory_free_bytes": 8e9},
        **{f"{rate}_bytes_per_second": rng.uniform(1e5, 1e7) for rate in rates},
        "gpus": [
            {
                **{"index": 0, "name": "Tesla T4", "utilization_percent": 80},
                **{"memory_bytes": 8e9, "memory_total_bytes": 16e9},
            }
        ],
    }


def _of_evaluation(
    at: dict[str, int], now: float, classes: int, rng: random.Random
) -> Iterator[dict[str, Any]]:
    when = {**at, "time": now}
    pairs = [[i, (i + 1) % classes, classes - i] for i in range(min(classes, 1000))]
    yield {
        **{"kind": "classes", **when, "support": [20] * classes, "ece": 0.04},
        **{
            "precision": [rng.random() for _ in range(classes)],
            "recall": [rng.random() for _ in range(classes)],
        },
        **{"confusion": pairs, "bins": [[(i + 0.5) / 15, min(1, (i + 0.4) / 15), 10 + i] for i in range(15)]},
    }
    samples = [
        {
            **{"sample": i, "loss": 5 - 0.3 * i, "label": i % classes, "predicted": (i + 1) % classes},
            **{"probability": 0.9, "label_probability": 0.01},
        }
        for i in range(8)
    ]
    yield {"kind": "worst", **when, "samples": samples}
    yield {
        **{"kind": "epoch", **when, "seconds": 10.0, "peak_rss_bytes": 2e9, "peak_gpu_bytes": {}},
        **{
            "loader_workers": 2,
            "memory_bytes": {"worker 0": {"program": 2e8, "weights": 1e9}, "each server": {"weights": 5e8}},
            "flops_per_sample": 3e8,
            "flops_per_second": 2e10,
            "peak_flops_per_second": 9e10,
        },
    }
