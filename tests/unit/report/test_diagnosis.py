"""Each finding on both sides of its threshold, on records as docs/records.md has them.

Real runs, ill and healthy ones, are diagnosed in tests/e2e/results/test_diagnosis.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

from mxtrain.doctor.run import run_doctor
from mxtrain.report import history
from mxtrain.report.__main__ import main
from mxtrain.report.diagnosis import CHECKS, EXPLAINS, diagnose, remark
from mxtrain.report.history import History
from mxtrain.report.page import page_data
from tests.support.commands import ROOT
from tests.support.jobs import recorded_run

Record = dict
Look = Callable[..., list]  # from records and settings to the names of what is found

CONFIG = {
    "task": "classification",
    "val": "val.rec",
    "lr": 0.1,
    "loss": "auto",
    "class_weights": "none",
    "batch_size": 64,
}
HEALTHY_STAGES = {
    "split": 0.0,
    "load": 0.001,
    "compute": 0.08,
    "synchronize": 0.005,
    "update": 0.01,
    "other": 0.001,
}
LAYERS = ("first.weight", "second.weight", "last.weight")


@pytest.fixture
def look(tmp_path: Path) -> Look:
    def look(records: list[Record], **config: Any) -> list[str]:
        return [finding.name for finding in diagnose(written(tmp_path, records, **config))]

    return look


def written(folder: Path, records: list[Record], **config: Any) -> History:
    (folder / "config.yaml").write_text(json.dumps({**CONFIG, **config}))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    return history.read(folder)


def steps(losses: Any, stages: dict[str, float] = HEALTHY_STAGES, **more: Any) -> list[Record]:
    """A train record for each loss, null where it is None; `more` are numbers, or lists with one for each step."""
    times = {f"{name}_seconds": seconds for name, seconds in stages.items()}
    records = []
    for place, loss in enumerate(losses):
        own = {name: value[place] if isinstance(value, list) else value for name, value in more.items()}
        loss = None if loss is None or not np.isfinite(loss) else float(loss)
        at = {"kind": "train", "step": place + 1, "epoch": 1 + place // 20, "seconds": sum(stages.values())}
        records.append({**at, "loss": loss, "gradient_norm": 1.0, "lr": 0.1, **times, **own})
    return records


def falling(count: int = 200, first: float = 2.3, last: float = 0.1) -> list[float]:
    return [float(each) for each in np.geomspace(first, last, count)]


def evaluations(val_losses: Any, accuracies: Any = None, every: int = 20, **more: Any) -> list[Record]:
    known = [{}] * len(val_losses) if accuracies is None else [{"val_accuracy": each} for each in accuracies]
    return [
        {"kind": "eval", "step": every * (n + 1), "epoch": n + 1, "val_loss": loss, "num_samples": 1000, "seconds": 0.1,
         **known[n], **more}
        for n, loss in enumerate(val_losses)
    ]  # fmt: skip


def layers(
    at: Any = (2, 5, 10, 20, 50),
    updates: float = 0.01,
    gradients: Any = (0.5, 0.7, 1.0),
    zero: Any = (0, 0, 0),
) -> list[Record]:
    record = {
        "kind": "layers", "epoch": 1, "weights": dict.fromkeys(LAYERS, 10.0),
        "updates": dict.fromkeys(LAYERS, 10.0 * updates), "gradients": dict(zip(LAYERS, gradients)),
        "zero_rows": dict(zip(LAYERS, map(float, zero))),
    }  # fmt: skip
    return [{**record, "step": step} for step in at]


def ended() -> list[Record]:
    return [{"kind": "event", "event": "end", "step": 200, "epoch": 10, "text": "the run is done"}]


def classes(support: list[int], recall: list[float], step: int = 200) -> list[Record]:
    return [
        {
            "kind": "classes",
            "step": step,
            "epoch": 10,
            "support": support,
            "recall": recall,
            "precision": recall,
        }
    ]


def worst(num_sure: int, num_unsure: int, at: Any = (180, 200)) -> list[Record]:
    def sample(number: int, probability: float) -> Record:
        return {"sample": number, "loss": 5.0, "label": 1, "predicted": 2, "probability": probability,
                "label_probability": 0.5 * (1 - probability)}  # fmt: skip

    samples = [sample(n, 0.99) for n in range(num_sure)] + [sample(100 + n, 0.6) for n in range(num_unsure)]
    return [{"kind": "worst", "step": step, "epoch": step // 20, "samples": samples} for step in at]


def workers(seconds_of: list[dict[str, float]], count: int = 6, cpu: Any = (100, 100)) -> list[Record]:
    told = [
        {"rank": rank, "host": "abc"[rank], "cpu_percent": cpu[rank],
         "micro_batches": int(own.get("share", 1)),
         **{f"{name}_seconds": {**HEALTHY_STAGES, **own}[name] for name in HEALTHY_STAGES if name != "other"}}
        for rank, own in enumerate(seconds_of)
    ]  # fmt: skip
    return [{"kind": "workers", "step": 10 * (n + 2), "epoch": 1, "workers": told} for n in range(count)]


VALIDATED = evaluations(falling(10, 2.0, 0.12), np.linspace(0.5, 0.97, 10))


def test_a_healthy_run_has_no_finding(look: Look) -> None:
    learnt = steps(falling(), accuracy=[float(each) for each in np.linspace(0.3, 0.98, 200)])
    assert (
        look([*learnt, *VALIDATED, *layers(), *classes([100] * 10, [0.97] * 10), *worst(3, 5), *ended()])
        == []
    )
    assert look([*learnt, *VALIDATED, *workers([{}, {}])], num_workers=2) == []


def test_runs_of_earlier_versions_and_young_ones_have_none(look: Look, tmp_path: Path) -> None:
    old = [
        {key: each[key] for key in ("kind", "step", "epoch", "loss", "lr", "seconds")}
        for each in steps(falling())
    ]
    assert (
        look(
            [
                *old,
                *(
                    {"kind": "eval", "step": each["step"], "epoch": 1, "val_loss": each["val_loss"]}
                    for each in VALIDATED
                ),
            ]
        )
        == []
    )
    assert look([]) == []
    for count in (1, 2, 3, 5, 10):
        assert (
            look([*steps([2.3] * count, {"load": 1.0, "compute": 0.01}), *layers((2,), zero=(1, 1, 1))]) == []
        )
    recorded_run.write(tmp_path / "recorded")
    assert isinstance(diagnose(history.read(tmp_path / "recorded")), list)


@pytest.mark.parametrize(
    "value", [None, "words", [1], {"a": "b"}, 10**400], ids=["none", "words", "list", "dict", "huge"]
)
def test_records_that_are_not_as_described_end_nothing(look: Look, value: Any) -> None:
    records = [
        *steps(falling()),
        *VALIDATED,
        *layers(),
        *classes([10] * 3, [1.0] * 3),
        *worst(8, 0),
        *workers([{}, {}]),
    ]
    records += [
        {
            "kind": "system",
            "step": 3,
            "epoch": 1,
            "host": "a",
            "rss_bytes": 5,
            "gpus": [{"utilization_percent": 3}],
        }
    ] * 20
    records += [
        {
            "kind": "event",
            "event": "restart",
            "step": 3,
            "epoch": 1,
            "text": "",
            "lost_seconds": 3,
            "lost_steps": 2,
        }
    ] * 3
    for key in sorted({key for record in records for key in record} - {"kind", "step"}):
        look(
            [{**record, key: value} if key in record else record for record in records],
            devices="gpu:0",
            num_workers=2,
        )
    for key in CONFIG:
        look(records, **{key: value})


def test_overfitting(look: Look) -> None:
    rises = [1.0, 0.6, 0.5, 0.5, 0.52, 0.55, 0.6, 0.65, 0.7, 0.7]
    assert look([*steps(falling()), *evaluations(rises)]) == ["overfitting"]
    assert look([*steps(falling()), *evaluations([min(each, 0.55) for each in rises])]) == []
    assert (
        look([*steps(falling()), *evaluations(rises, np.linspace(0.5, 0.9, 10))]) == []
    )  # its answers still improve
    assert look([*steps(falling()), *evaluations(rises[:4])]) == []
    assert look([*steps(falling()), *evaluations(rises)], overfit=2) == []
    known = {"accuracy": 0.99}
    assert look([*steps(falling(), **known), *evaluations([0.5] * 10, [0.8] * 10)]) == ["overfitting"]
    assert look([*steps(falling(), **known), *evaluations([0.5] * 10, [0.93] * 10)]) == []
    few = [{**each, "num_samples": 20} for each in evaluations([0.5] * 10, [0.8] * 10)]
    assert look([*steps(falling(), **known), *few]) == []  # four of twenty may be chance
    assert look([*steps(falling()), *evaluations([0.8] * 10)]) == ["overfitting"]
    assert look([*steps(falling()), *evaluations([0.2] * 10)]) == []


def test_underfitting(look: Look) -> None:
    open_, classes_ = steps(falling(last=1.5)), classes([100] * 10, [0.3] * 10)
    assert look([*open_, *evaluations([1.6] * 10), *classes_, *ended()]) == ["underfitting"]
    assert look([*open_, *evaluations([1.6] * 10), *classes_]) == [
        "underfitting"
    ]  # under way, and falls no more
    assert look([*open_, *evaluations(falling(10, 2.3, 1.6)), *classes_]) == []  # under way
    assert look([*open_, *evaluations(falling(10, 2.3, 1.6)), *classes_, *ended()]) == ["underfitting"]
    assert look([*open_, *evaluations([1.6] * 10), *ended()]) == []  # of what, nobody knows
    assert look([*open_, *evaluations([1.6] * 10), *classes_, *ended()], loss="focal") == []
    assert look([*steps(falling(last=1.0)), *evaluations([1.0] * 10), *classes_, *ended()]) == []
    assert look([*open_, *evaluations([1.0] * 10, val_r2=0.4), *ended()]) == ["underfitting"]
    assert look([*open_, *evaluations([1.0] * 10, val_r2=0.6), *ended()]) == []


def test_underfitting_that_only_needs_time_says_so(tmp_path: Path) -> None:
    records = [
        *steps(falling(last=1.5)),
        *evaluations(falling(10, 2.3, 1.6)),
        *classes([9] * 10, [0.3] * 10),
        *ended(),
    ]
    (finding,) = diagnose(written(tmp_path, records, epochs=10))
    assert finding.advice.startswith("--epochs 20:") and "still falls" in finding.evidence[-1]


def test_nothing_learnt(look: Look) -> None:
    flat = [2.3 + 0.01 * (-1) ** n for n in range(200)]
    assert look([*steps(flat), *evaluations([2.3] * 4)]) == ["nothing-learnt"]
    assert look([*steps(flat[:90]), *evaluations([2.3] * 4)]) == []
    assert look([*steps(falling(last=2.2)), *evaluations([2.3] * 4)]) == []
    low = [0.1 + each / 1000 for each in flat]
    assert look([*steps(low), *evaluations([0.1] * 4, [0.98] * 4)], pretrained="a.params") == []
    assert look([*steps(low), *evaluations([0.1] * 4), *classes([9] * 10, [0.9] * 10)]) == []


def test_no_validation(look: Look) -> None:
    assert look(steps(falling()), val=None) == ["no-validation"]
    assert look(steps(falling(90)), val=None) == []
    assert look(steps(falling()), val=None, overfit=1) == []


def test_diverging(look: Look, tmp_path: Path) -> None:
    rises = [*falling(100, 2.3, 0.5), *falling(100, 0.5, 4.0)]
    assert look([*steps(rises), *VALIDATED[:3]]) == ["diverging"]
    assert look([*steps([*rises[:100], *(min(each, 1.4) for each in rises[100:])]), *VALIDATED[:3]]) == []
    small = [each / 20 for each in rises[100:]]
    assert (
        look([*steps([*falling(100, 2.3, 0.025), *small]), *VALIDATED[:3]]) == []
    )  # 0.09 is as good as 0.025
    assert look(steps([2.3, 2.9, None, None, None])) == ["diverging"]
    assert look(steps([2.3, 2.9, None, None, 2.9])) == []
    assert look([*steps([2.3, 2.9]), {"kind": "eval", "step": 2, "epoch": 1, "val_loss": None}]) == [
        "diverging"
    ]
    (finding,) = diagnose(written(tmp_path, steps([2.3, 2.9, None, None, None])))
    assert finding.title == "The run has diverged" and finding.advice.startswith(
        "--lr 0.01 --warmup-epochs 1 --clip-norm 1:"
    )


def test_learning_rate_too_high(look: Look) -> None:
    leaps = [2.3, 30.0, 50.0, 20.0, 9.0, *falling(195, 5.0, 2.2)]
    assert look([*steps(leaps), *VALIDATED[:3]]) == ["learning-rate-too-high"]
    assert look([*steps([min(each, 6.0) for each in leaps]), *VALIDATED[:3]]) == []
    assert (
        look([*steps([*leaps[:5], *falling(195, 5.0, 0.5)]), *VALIDATED[:3]]) == []
    )  # it has learnt all the same
    assert look([*steps(falling(last=1.9)), *layers(updates=0.08), *VALIDATED[:3]]) == [
        "learning-rate-too-high"
    ]
    assert look([*steps(falling(last=1.9)), *layers(updates=0.04), *VALIDATED[:3]]) == []
    assert look([*steps(falling(last=1.9)), *layers((2, 5), updates=0.08), *VALIDATED[:3]]) == []


def test_learning_rate_too_low(look: Look) -> None:
    assert look([*steps(falling(last=2.1)), *layers(updates=5e-5), *VALIDATED[:3]]) == [
        "learning-rate-too-low"
    ]
    assert look([*steps(falling(last=2.1)), *layers(updates=2e-4), *VALIDATED[:3]]) == []
    assert look([*steps(falling(last=1.0)), *layers(updates=5e-5), *VALIDATED[:3]]) == []


def test_vanishing_and_exploding_gradients(look: Look) -> None:
    learnt = [*steps(falling()), *VALIDATED]
    assert look([*learnt, *layers(gradients=(5e-5, 0.1, 1.0))]) == ["vanishing-gradients"]
    assert look([*learnt, *layers(gradients=(2e-4, 0.1, 1.0))]) == []
    assert (
        look([*learnt, *layers((2, 5, 10), gradients=(5e-5, 0.1, 1.0))]) == []
    )  # the first step does not count
    assert look([*learnt, *layers(gradients=(2e4, 2e4, 2e4))]) == ["exploding-gradients"]
    assert look([*learnt, *layers(gradients=(5e3, 5e3, 5e3))]) == []
    assert look([*learnt, *layers(gradients=(2e3, 10.0, 1.0))]) == ["exploding-gradients"]
    assert look([*learnt, *layers(gradients=(500, 10.0, 1.0))]) == []


def test_gradients_that_leap(look: Look) -> None:
    def norms(*leaps: int) -> list[float]:
        return [200.0 if step in leaps else 1.0 for step in range(200)]

    assert look([*steps(falling(), gradient_norm=norms(90, 120, 150)), *VALIDATED]) == ["exploding-gradients"]
    assert look([*steps(falling(), gradient_norm=norms(90, 120)), *VALIDATED]) == []
    assert look([*steps(falling(), gradient_norm=norms(1, 2, 3, 4)), *VALIDATED]) == []
    assert look(steps([7e6, None, None, None, None], gradient_norm=[8e6, None, None, None, None])) == [
        "exploding-gradients"
    ]
    assert look(steps([7e6, None, None, None, None], gradient_norm=[8e3, None, None, None, None])) == [
        "diverging"
    ]


def test_dead_activations(look: Look) -> None:
    learnt = [*steps(falling()), *VALIDATED]
    assert look([*learnt, *layers(zero=(0, 0.6, 0))]) == ["dead-activations"]
    assert look([*learnt, *layers(zero=(0, 0.5, 0))]) == []
    assert look([*learnt, *layers((2, 5, 10), zero=(0, 0.9, 0))]) == []
    assert (
        look([*learnt, *layers((5, 10), zero=(0, 0.9, 0)), *layers((20,)), *layers((50,), zero=(0, 0.9, 0))])
        == []
    )
    by_heart = steps(falling(last=0.001))  # its gradients may be shorter than the grid of exact sums
    assert look([*by_heart, *evaluations(falling(10, 2, 0.05)), *layers(zero=(0, 0.9, 0))]) == []


def test_predictions_of_a_detector_are_not_dead(look: Look) -> None:
    names = ("features.0.weight", "box_predictors.0.predictor.weight")
    records = [*steps(falling(200, 16, 7))]
    for step in (50, 100, 150):
        shares = dict.fromkeys(names, 1e-2)
        rows = dict(zip(names, (0.0, 1.0)))
        records.append(
            {"kind": "layers", "step": step, "gradients": shares, "weights": shares, "updates": shares}
        )
        records[-1]["zero_rows"] = rows
    records.sort(key=lambda record: record["step"])
    assert "dead-activations" in look(records)
    assert "dead-activations" not in look(records, task="detection")


def test_on_maps_of_a_detector_most_units_have_no_object_to_learn(look: Look) -> None:
    assert look([*steps(falling()), *VALIDATED, *layers(zero=(0, 0.9, 0))], task="detection") == []


def test_poor_anchors(look: Look, tmp_path: Path) -> None:
    assert look([*steps(falling(), anchor_overlap=0.3), *VALIDATED], task="detection") == ["poor-anchors"]
    assert look([*steps(falling(), anchor_overlap=0.6), *VALIDATED], task="detection") == []
    for augment, is_smaller in (("expand:p=0.3+flip", True), ("flip", False)):
        records = [*steps(falling(), anchor_overlap=0.3), *VALIDATED]
        (found,) = diagnose(written(tmp_path, records, task="detection", augment=augment))
        assert found.advice.startswith("--augment without expand") == is_smaller


def test_class_imbalance(look: Look) -> None:
    learnt = [*steps(falling()), *VALIDATED]
    assert look([*learnt, *classes([100, 100, 100, 10], [0.95, 0.95, 0.95, 0.5])]) == ["class-imbalance"]
    assert look([*learnt, *classes([100, 100, 100, 10], [0.95, 0.95, 0.95, 0.8])]) == []
    assert look([*learnt, *classes([100, 100, 100, 40], [0.95, 0.95, 0.95, 0.5])]) == []
    assert (
        look([*learnt, *classes([100, 100, 100, 4], [0.95, 0.95, 0.95, 0.0])]) == []
    )  # of four nobody can tell
    assert look([*learnt, *classes([900, 60], [0.99, 0.1])]) == ["class-imbalance"]


def detector(precision: list[float], recall: float, confusion: Any = (), **more: Any) -> list[Record]:
    """Evaluations of boxes of three classes, ten each, of which a tenth are detected."""
    records: list[Record] = [
        {"kind": "eval", "step": 60 * (i + 1), "epoch": i + 1, "num_samples": 30, "val_loss": 5.0}
        | {"val_map": each / 2, "val_map_50": each, "val_mar_100": recall}
        for i, each in enumerate(precision)
    ]
    shares = {"support": [10, 10, 10], "recall": [0.1, 0.1, None], "precision": [0.1, None, 0.1]}
    report = {**shares, "f1": [0.1, 0.1, 0.1], "confusion": list(confusion), "has_background": True}
    return [*records, {"kind": "classes", "step": 180, "epoch": 3, **report, **more}]


def test_boxes_that_are_not_found(look: Look, tmp_path: Path) -> None:
    learning, still = steps(falling(200, 16, 7)), steps(falling(200, 16, 15))
    assert look([*learning, *detector([0.001, 0.2, 0.3], 0.5)], task="detection") == []
    assert look([*learning, *detector([0.0, 0.005], 0.5)], task="detection") == []  # early days
    reasons = {}
    for name, records in {
        "mixed": [*learning, *detector([0.0, 0.001, 0.002], 0.3, [[0, 1, 9], [1, 2, 9], [2, 3, 1]])],
        "nothing": [*still, *detector([0.0, 0.001, 0.002], 0.01)],
        "beside": [*learning, *detector([0.0, 0.001, 0.002], 0.01, [[3, 0, 50], [0, 3, 9]])],
        "scores": [*learning, *detector([0.0, 0.001, 0.002], 0.4)],
    }.items():
        assert look([*records, *ended()], task="detection", epochs=3, image_size=128) == ["boxes-not-found"]
        (finding,) = diagnose(history.read(tmp_path))
        reasons[name] = finding.advice.split()[0] + " " + finding.evidence[1]
    assert reasons == {
        "mixed": "--val Of the boxes that a detection lies on, 90% are of another class.",
        "nothing": "--overfit The training loss has not fallen by a tenth either.",
        "beside": "--image-size Detections are not where boxes are, though the training loss has fallen.",
        "scores": "--epochs Boxes are hit, but with lower scores than what is none.",
    }


def test_label_noise(look: Look, tmp_path: Path) -> None:
    learnt = [*steps(falling()), *VALIDATED]
    assert look([*learnt, *worst(6, 4)]) == ["label-noise"]
    assert look([*learnt, *worst(4, 0)]) == []
    assert look([*learnt, *worst(6, 8)]) == []
    assert look([*learnt, *worst(6, 4, at=(200,))]) == []
    assert look([*steps(falling()), *evaluations(falling(10, 2, 0.12), [0.6] * 10), *worst(6, 4)]) == []
    (finding,) = diagnose(written(tmp_path, [*learnt, *worst(6, 4)]))
    assert "0 (label 1, answered 2), 1 (label 1, answered 2)" in finding.evidence[1]


def test_data_bound(look: Look) -> None:
    def loading(share: float, step: float = 0.1, count: int = 200) -> list[Record]:
        return steps(falling(count), {"load": share * step, "compute": (1 - share) * step})

    assert look([*loading(0.25), *VALIDATED]) == ["data-bound"]
    assert look([*loading(0.15), *VALIDATED]) == []
    assert look([*loading(0.25, step=0.01), *VALIDATED]) == []  # a quarter of a second in all
    assert look(loading(0.9, step=1.0, count=19)) == []
    first = steps(falling(100), {"load": 5.0, "compute": 0.1}) + steps(falling())[100:]
    assert look([*first, *VALIDATED]) == []  # while its cache was filled


def test_comm_bound(look: Look) -> None:
    def waiting(share: float) -> list[Record]:
        return [*steps(falling(), {"synchronize": 0.1 * share, "compute": 0.1 * (1 - share)}), *VALIDATED]

    assert look(waiting(0.4), num_workers=2) == ["comm-bound"]
    assert look(waiting(0.3), num_workers=2) == []
    assert look(waiting(0.4), num_workers=1) == []


def test_straggler(tmp_path: Path) -> None:
    def found(own: list[dict[str, float]], **more: Any) -> list[str]:
        records = [
            *steps(falling(), {"synchronize": 0.05, "compute": 0.08}),
            *VALIDATED,
            *workers(own, **more),
        ]
        return [finding.title for finding in diagnose(written(tmp_path, records, num_workers=len(own)))]

    waits = {"synchronize": 0.08}
    assert found([waits, {"load": 0.06}]) == ["Worker 1 holds up the others, by its data"]
    assert found([{"compute": 0.14}, waits, waits], cpu=(100, 60, 60)) == [
        "Worker 0 holds up the others, by its computing"
    ]
    assert found([{"compute": 0.14}, waits], cpu=(50, 90)) == ["Worker 0 holds up the others, by its CPU"]
    assert found([{"compute": 0.1}, waits]) == []
    assert found([{"compute": 0.14}, waits], count=3) == []
    assert found([{"compute": 0.14}, {**waits, "share": 0}]) == []
    assert found([{"compute": 0.14, "share": 2}, waits]) == []
    assert found([{"compute": 0.4, "share": 2}, waits, waits], cpu=(90, 90, 90)) != []
    with_turns = [*workers([{"compute": 0.14}, waits], 3), *workers([waits, {"compute": 0.14}], 3)]
    records = [*steps(falling()), *VALIDATED, *with_turns]
    assert diagnose(written(tmp_path, records, num_workers=2)) == []


def test_time_for_evaluations_and_checkpoints(look: Look) -> None:
    def elsewhere(kind: str, seconds: float) -> list[Record]:
        if kind == "eval":
            return [{**each, "seconds": seconds / 10} for each in VALIDATED]
        return [
            *VALIDATED,
            *(
                {
                    "kind": "event",
                    "event": "checkpoint",
                    "step": 20 * n,
                    "epoch": n,
                    "text": "",
                    "seconds": seconds / 10,
                }
                for n in range(10)
            ),
        ]

    learnt = steps(falling())  # 19.4 s
    assert look([*learnt, *elsewhere("eval", 10)]) == ["evaluation-time"]
    assert look([*learnt, *elsewhere("eval", 7)]) == []
    assert look([*learnt, *elsewhere("checkpoint", 10)]) == ["checkpoint-time"]
    assert look([*learnt, *elsewhere("checkpoint", 7)]) == []
    assert look([*steps(falling(40)), *elsewhere("eval", 1.9)]) == []


def test_idle_gpu(look: Look) -> None:
    def using(percent: float, count: int = 6) -> list[Record]:
        gpus = [{"index": 0, "utilization_percent": percent}]
        return [{"kind": "system", "step": n, "epoch": 1, "host": "a", "gpus": gpus} for n in range(count)]

    learnt = [*steps(falling()), *VALIDATED]
    assert look([*learnt, *using(40)], devices="gpu:0") == ["gpu-idle"]
    assert look([*learnt, *using(60)], devices="gpu:0") == []
    assert look([*learnt, *using(40, 5)], devices="gpu:0") == []
    assert look([*learnt, *using(40)], devices="cpu") == []
    loading = steps(falling(), {"load": 0.08, "compute": 0.02})
    assert look([*loading, *VALIDATED, *using(40)], devices="gpu:0") == ["data-bound"]


def test_memory_growing(look: Look) -> None:
    def held(gigabytes: Any) -> list[Record]:
        return [
            {"kind": "system", "step": n, "epoch": 1, "host": "a", "rss_bytes": 1e9 * each}
            for n, each in enumerate(gigabytes)
        ]

    learnt = [*steps(falling()), *VALIDATED]
    assert look([*learnt, *held(np.linspace(1, 3, 30))]) == ["memory-growing"]
    assert look([*learnt, *held(np.linspace(1, 3, 17))]) == []
    assert look([*learnt, *held(np.linspace(1, 1.2, 30))]) == []
    assert look([*learnt, *held([*np.linspace(1, 3, 10), *[3.0] * 20])]) == []  # a cache that is full
    assert look([*learnt, *held([1 + n % 5 for n in range(30)])]) == []


def test_skipped_steps(look: Look) -> None:
    def skipping(count: int, scale: float) -> list[Record]:
        return [
            *steps(falling(), skipped_steps=[min(n, count) for n in range(200)], loss_scale=scale),
            *VALIDATED,
        ]

    assert look(skipping(5, 1024.0)) == ["skipped-steps"]
    assert look(skipping(3, 1024.0)) == []
    assert look(skipping(3, 0.5)) == ["skipped-steps"]


def test_restarts(look: Look) -> None:
    def restarts(count: int, lost_seconds: float) -> list[Record]:
        event = {
            "kind": "event",
            "event": "restart",
            "step": 50,
            "epoch": 3,
            "text": "worker 1 died",
            "lost_steps": 9,
        }
        return [*steps(falling()), *VALIDATED, *[{**event, "lost_seconds": lost_seconds}] * count]

    assert look(restarts(1, 6.0)) == ["restarts"]
    assert look(restarts(1, 1.0)) == []
    assert look(restarts(3, 0.1)) == ["restarts"]


def test_explanations_name_findings_that_there_are() -> None:
    folder = Path(history.__file__).parent / "diagnosis"
    named = "".join(path.read_text() for path in folder.glob("*.py") if path.name != "__init__.py")
    for cause, explained in EXPLAINS.items():
        assert all(
            f'Finding("{name}"' in named.replace("Finding(\n        ", "Finding(")
            for name in {cause} | explained
        ), (cause, explained)
    assert len(CHECKS) == named.count("-> Finding | None:")


def test_the_command_prints_the_diagnosis_and_the_page_holds_it(tmp_path: Path, capsys: Any) -> None:
    ill = written(tmp_path, steps([2.3, 2.9, None, None, None]))
    (finding,) = diagnose(ill)
    assert main(["--text", str(tmp_path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for words in (finding.name, finding.title, *finding.evidence, finding.advice):
        assert words in printed
    assert page_data.page_data([ill])["runs"][0]["findings"][0]["title"] == finding.title
    written(tmp_path, [*steps(falling()), *VALIDATED])
    assert main(["--text", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "Nothing stands out in these records.\n"
    assert main(["--text", "--png", str(tmp_path)]) == 2


def test_advice_names_flags_that_there_are() -> None:
    folder = Path(history.__file__).parent / "diagnosis"
    named = {flag for path in folder.glob("*.py") for flag in re.findall(r"--[a-z][a-z-]*", path.read_text())}
    of_others = {"--only", "--config", "--text"}  # doctor's and report's
    assert of_others < named
    assert named - of_others <= set(re.findall(r"`(--[a-z-]+)`", (ROOT / "docs" / "flags.md").read_text()))


def test_a_remark_is_about_the_most_serious_finding_and_says_nothing_else(tmp_path: Path) -> None:
    written(tmp_path, [*steps([2.3, 2.9, None, None, None]), *evaluations([1.0, None])])
    assert remark(tmp_path).startswith(
        "diverging: The last evaluation's loss was no number; what to change: python"
    )
    written(tmp_path, [*steps(falling()), *VALIDATED])
    assert remark(tmp_path) == ""
    written(tmp_path, steps(falling()), val=None)
    assert remark(tmp_path) == ""


def test_parts_that_advice_has_doctor_measure_are_doctors() -> None:
    folder = ROOT / "mxtrain" / "report" / "diagnosis"
    code = "".join(path.read_text() for path in folder.glob("*.py"))
    named = set(re.findall(r"doctor\(history, .(\S+).\)", code))
    assert {"comm", "data", "rate"} <= named <= set(run_doctor.PARTS)
