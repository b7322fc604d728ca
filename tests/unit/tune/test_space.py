"""space.yaml: what it may say, and what is refused, by file and line, before anything starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mxtrain.config import Run
from mxtrain.core.errors import UsageError
from mxtrain.tune import space as spaces

BASE = Run.of(train="t.rec", val="v.rec")
WHOLE = """
lr: {low: 1e-4, high: 1e-1, log: true}
batch-size: [32, 64]
amp: [off, bf16]
warmup_epochs: {low: 0, high: 1.2, step: 0.5}
optimizer:
  sgd:
    momentum: {low: 0.8, high: 0.99}
    nothing_of: adamw
  adamw:
    weight_decay: [0.01, 0.1]
  adam:
""".replace("    nothing_of: adamw\n", "")


def read(folder: Path, text: str, base: Run = BASE) -> spaces.Space:
    path = folder / "space.yaml"
    path.write_text(text)
    return spaces.read(path, base)


def test_a_space_has_lists_ranges_and_flags_that_count_beside_a_choice(tmp_path: Path) -> None:
    found = {parameter.name: parameter for parameter in read(tmp_path, WHOLE)}
    assert (found["lr"].low, found["lr"].high, found["lr"].log) == (1e-4, 0.1, True)
    assert found["batch_size"].choices == (32, 64)
    assert found["amp"].choices == ("off", "bf16")  # which YAML takes for false
    assert found["warmup_epochs"].points() == (0.0, 0.5, 1.0)
    assert found["optimizer"].choices == ("sgd", "adamw", "adam")
    assert found["momentum (optimizer sgd)"].beside == (("optimizer", "sgd"),)
    first = spaces.drawn([*found.values()], lambda each: (each.choices or (each.low,))[0])
    assert first == {
        **{"lr": 1e-4, "batch_size": 32, "amp": "off", "warmup_epochs": 0.0},
        **{"optimizer": "sgd", "momentum": 0.8},
    }


def test_a_grid_has_each_point_once_and_flags_only_where_they_count(tmp_path: Path) -> None:
    text = "epochs: {low: 2, high: 5, step: 2}\noptimizer:\n  sgd:\n  adamw: {weight_decay: [0.1, 0.2]}\n"
    assert spaces.grid(read(tmp_path, text)) == [
        {"epochs": epochs, **optimizer}
        for epochs in (2, 4)
        for optimizer in (
            {"optimizer": "sgd"},
            {"optimizer": "adamw", "weight_decay": 0.1},
            {"optimizer": "adamw", "weight_decay": 0.2},
        )
    ]
    endless = read(tmp_path, WHOLE)
    assert not spaces.grid(endless)
    assert spaces.endless(endless) == ["lr", "momentum (optimizer sgd)"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("lr: [0.1]\nlearning_rat: [1]", 2, "unknown flag 'learning_rat'"),
        ("batchsize: [1]", 1, "did you mean 'batch_size'?"),
        ("lr: {low: 1, hihg: 2}", 1, "no 'hihg' in a range; did you mean 'high'?"),
        ("lr: {low: 0.1}", 1, "lr: give both low and high"),
        ("lr: {low: 0.5, high: 0.1}", 1, "low 0.5 is above high 0.1"),
        ("lr: {low: 0.1, high: .nan}", 1, "expected a number, got nan"),
        ("lr: {low: 0, high: 1, log: true}", 1, "--lr 0.0: give"),
        ("weight_decay: {low: 0, high: 1, log: true}", 1, "log needs a low above 0"),
        ("lr: {low: 0.1, high: 1, log: perhaps}", 1, "log: expected true or false, got 'perhaps'"),
        ("lr: {low: 0.1, high: 1, log: true, step: 0.1}", 1, "give log or step"),
        ("epochs: {low: 1, high: 4, step: 0.5}", 1, "step: give a whole number above 0"),
        ("batch_size: {low: 8.5, high: 16}", 1, "expected a whole number, got 8.5"),
        ("batch_size:\n- 32\n- many", 3, "expected a whole number, got 'many'"),
        ("momentum: [0.5, 1.5]", 1, "--momentum 1.5: give a number from 0 to below 1"),
        ("optimizer: [sgd, adamq]", 1, "--optimizer adamq: unknown name; did you mean 'adam'"),
        ("optimizer: {low: 1, high: 2}", 1, "has no range, as it is no number"),
        ("lr: 0.1", 1, "belongs into --config"),
        ("lr: []", 1, "is an empty list"),
        ("lr: [0.1, 0.10]", 1, "0.1 is given twice"),
        ("lr: [0.1]\nlr: [0.2]", 2, "lr is given twice"),
        ("optimizer: {sgd: {lr: [1]}, adamw: }\nlr: [2]", 2, "lr is given twice"),
        ("optimizer: {sgd: {lr: [1]}}\nschedule: {cosine: {lr: [2]}}", 2, "lr is given twice"),
        ("optimizer:\n  sgd: 0.1", 2, "expected lines such as"),
        ("augment: [none, [flip]]", 1, "a list has single values"),
        ("clip_norm: [1]\nclip_value: [1]", 1, "two ways to the same end"),
        ("val: [a.rec, b.rec]", 1, "is the same for all trials"),
        ("zero_gamma: [1, 2]", 1, "expected true or false, got '1'"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as refusal:
        read(tmp_path, text)
    assert str(refusal.value).startswith(f"--space {tmp_path / 'space.yaml'}:{line}: ")


@pytest.mark.parametrize("text", ["", "- lr", "lr: [0.1", "lr: 'é", "\x00"])
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"expected lines such as|not YAML"):
        read(tmp_path, text)


def test_a_value_is_fine_that_goes_together_with_some_of_the_others(tmp_path: Path) -> None:
    text = "label_smoothing: [0, 0.1]\nloss: [cross_entropy, 'focal:gamma=2']\n"
    assert len(read(tmp_path, text, Run.of(train="t.rec", val="v.rec", label_smoothing=0.1))) == 2
