"""Learning rates are pure functions of the step."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mxtrain import config
from mxtrain.config.components import schedules as components
from mxtrain.core.errors import UsageError
from mxtrain.data.loading.run_plan import RunLength
from mxtrain.optim import schedules

# Each once as it is, and once with other numbers.
EXAMPLES = [
    "constant",
    "cosine",
    "cosine:cycles=3,decay=0.5,floor=0.01",
    "linear",
    "linear:floor=0.1",
    "poly",
    "poly:power=0.9,floor=0.01",
    "sigmoid",
    "sigmoid:steepness=20,middle=0.7,floor=0.1",
    "one_cycle",
    "one_cycle:rise=0.1,start=0.2,floor=0.01",
    "step",
    "step:every=1.5,factor=0.5",
    "multistep:at=1/2.5/4",
    "multistep:at=3,factor=0.2",
    "exp",
    "exp:factor=0.5",
    "inv",
    "inv:gamma=0.1,power=2",
]
FALLING = [spec for spec in EXAMPLES if "one_cycle" not in spec and "cycles" not in spec]


@functools.lru_cache(maxsize=None)
def optim_of(spec: str, *flags: str) -> config.Optim:
    return config.parse(["--lr", "1", "--schedule", spec, *flags]).optim


def rate_at(step: int, spec: str, steps_per_epoch: float, num_steps: int) -> float:
    return schedules.rate_function(optim_of(spec), RunLength(steps_per_epoch, num_steps))(step)


def rates(spec: str, steps_per_epoch: float, num_steps: int, *flags: str) -> list[float]:
    rate_of = schedules.rate_function(optim_of(spec, *flags), RunLength(steps_per_epoch, num_steps))
    return [rate_of(step) for step in range(num_steps)]


def end(spec: str, epochs: float) -> float:
    """Return the rate of the step after the last."""
    name, numbers = components.parse(optim_of(spec))
    return components.SCHEDULES[name].load()(schedules.SchedulePoint(1.0, epochs, epochs), **numbers)


def test_every_function_has_its_numbers_and_an_example() -> None:
    assert {spec.split(":")[0] for spec in EXAMPLES} == set(components.SCHEDULES)
    assert set(components.EPOCH_SCHEDULES) < set(components.SCHEDULES)


# What holds for all


@given(
    some.sampled_from(EXAMPLES),
    some.integers(1, 500),
    some.integers(1, 40),
    some.sampled_from(["0", "0.3", "2", "7.5"]),
)
def test_rates_are_finite_and_at_most_the_peak(
    spec: str, steps_per_epoch: int, epochs: int, warmup: str
) -> None:
    found = rates(spec, steps_per_epoch, steps_per_epoch * epochs, "--warmup-epochs", warmup)
    assert all(0 < rate <= 1 + 1e-12 for rate in found)


@pytest.mark.parametrize("spec", EXAMPLES)
def test_the_warm_up_climbs_evenly_to_where_the_schedule_begins(spec: str) -> None:
    found = rates(spec, 10, 100, "--warmup-epochs", "0.9")  # 9 steps, before any milestone here
    assert found[:10] == pytest.approx([found[9] * (step + 1) / 10 for step in range(10)])
    if "one_cycle" not in spec:
        assert found[9] == pytest.approx(1.0)


@pytest.mark.parametrize("spec", EXAMPLES)
def test_a_schedule_begins_at_the_peak(spec: str) -> None:
    numbers = components.parse(optim_of(spec)).hyperparameters
    assert rates(spec, 10, 100)[0] == pytest.approx(numbers.get("start", 1.0))


@pytest.mark.parametrize("spec", FALLING)
def test_a_schedule_never_rises_again(spec: str) -> None:
    found = rates(spec, 17, 170)
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize(
    "spec", [spec for spec in EXAMPLES if spec.split(":")[0] not in ("step", "multistep")]
)
def test_smooth_schedules_have_no_jumps(spec: str) -> None:
    """Twice as many steps, half the largest jump; where cycles begin anew, jumps stay."""
    jumps = []
    for steps_per_epoch in (400, 800):
        found = rates(spec, steps_per_epoch, 10 * steps_per_epoch, "--warmup-epochs", "1")
        sizes = sorted(abs(after - before) for before, after in zip(found, found[1:]))
        restarts = components.parse(optim_of(spec)).hyperparameters.get("cycles", 1) - 1
        jumps.append(sizes[-1 - restarts])
    assert jumps[1] == pytest.approx(jumps[0] / 2, rel=0.2)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("constant", 1.0),
        ("cosine", 0.0),
        ("cosine:cycles=3,floor=0.01", 0.01),
        ("linear:floor=0.1", 0.1),
        ("poly:floor=0.2", 0.2),
        ("sigmoid:floor=0.3", 0.3),
        ("one_cycle", 4e-6),
        ("step", 0.001),
        ("multistep:at=30/60/80/90", 1e-4),
        ("exp", 0.95**90),
        ("inv", 91**-0.5),
    ],
)
def test_a_schedule_ends_where_the_docs_say(spec: str, expected: float) -> None:
    assert end(spec, 90) == pytest.approx(expected, abs=1e-12)
    nearly = rate_at(89_999, spec, 1000, 90_000)
    assert nearly == pytest.approx(expected, abs=1e-4) or spec.startswith(("step", "multistep"))


@pytest.mark.parametrize("spec", components.EPOCH_SCHEDULES)
def test_schedules_that_count_epochs_do_not_depend_on_the_length_of_the_run(spec: str) -> None:
    spec = "multistep:at=2/5" if spec == "multistep" else spec
    short, long = (rates(spec, 10, num_steps, "--warmup-epochs", "1") for num_steps in (70, 300))
    assert long[:70] == short


@pytest.mark.parametrize(
    "spec", [spec for spec in EXAMPLES if spec.split(":")[0] not in components.EPOCH_SCHEDULES]
)
def test_other_schedules_are_spread_over_the_run(spec: str) -> None:
    short, long = rates(spec, 10, 100), rates(spec, 10, 300)
    assert long[::3] == pytest.approx(short)


# Against others' formulas


def test_milestones_come_with_their_epoch_s_first_step() -> None:
    found = rates("multistep:at=30/60/80", 7, 90 * 7, "--warmup-epochs", "5")
    changes = [step for step in range(36, len(found)) if found[step] != found[step - 1]]
    assert changes == [30 * 7, 60 * 7, 80 * 7]
    assert found[-1] == pytest.approx(1e-3)
    found = rates("step:every=0.1", 10, 30)
    assert all(found[step] == pytest.approx(0.1**step) for step in range(30))


def test_a_cycle_starts_again_with_its_first_step() -> None:
    cycle = rates("cosine", 1, 7)
    for cycles in range(1, 40):
        assert rates(f"cosine:cycles={cycles}", 1, 7 * cycles) == pytest.approx(cycle * cycles)


def torch_rates(make: Callable[[Any, Any], Any], num_steps: int) -> list[float]:
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    schedule, found = make(torch.optim.lr_scheduler, optimizer), []
    for _ in range(num_steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


TORCHS: dict[str, Callable[[Any, Any], Any]] = {
    "cosine:floor=0.1": lambda of, optimizer: of.CosineAnnealingLR(optimizer, 90, eta_min=0.1),
    "cosine:cycles=3": lambda of, optimizer: of.CosineAnnealingWarmRestarts(optimizer, 30),
    "linear:floor=0.1": lambda of, optimizer: of.LinearLR(optimizer, 1.0, 0.1, total_iters=90),
    "poly:power=0.9": lambda of, optimizer: of.PolynomialLR(optimizer, 90, 0.9),
    "step:every=20": lambda of, optimizer: of.StepLR(optimizer, 20),
    "multistep:at=30/60/80": lambda of, optimizer: of.MultiStepLR(optimizer, [30, 60, 80]),
    "exp:factor=0.9": lambda of, optimizer: of.ExponentialLR(optimizer, 0.9),
    # Torch's first phase has a step less, and its last step is already the end.
    "one_cycle": lambda of, optimizer: of.OneCycleLR(
        optimizer, 1.0, total_steps=91, pct_start=(0.3 * 90 + 1) / 91
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("spec", TORCHS)
def test_the_formula_is_torch_s(spec: str) -> None:
    assert rates(spec, 1, 90) == pytest.approx(torch_rates(TORCHS[spec], 90), rel=1e-6, abs=1e-9)


def test_known_values() -> None:
    assert rates("cosine", 1, 4) == pytest.approx([1.0, 0.8535534, 0.5, 0.1464466])
    assert rates("linear", 1, 4) == pytest.approx([1.0, 0.75, 0.5, 0.25])
    assert rates("poly", 1, 4) == pytest.approx([1.0, 0.5625, 0.25, 0.0625])
    assert rates("exp:factor=0.5", 2, 4) == pytest.approx([1.0, 0.5**0.5, 0.5, 0.5**1.5])
    assert rates("inv:gamma=2,power=0.5", 1, 4) == pytest.approx([1.0, 3**-0.5, 5**-0.5, 7**-0.5])
    assert rates("sigmoid", 1, 4)[2] == pytest.approx(0.5)
    assert rates("one_cycle:rise=0.5,start=0.2", 1, 4) == pytest.approx([0.2, 0.6, 1.0, 0.5], abs=1e-5)


# The rest


def test_the_peak_follows_the_linear_rule() -> None:
    assert schedules.peak_rate(optim_of("cosine")) == 1.0
    optim = optim_of("cosine", "--batch-size", "1024", "--lr-base-batch", "256", "--warmup-epochs", "2")
    assert schedules.peak_rate(optim) == 4.0
    length = RunLength(10, 100)
    assert schedules.rate_function(optim, length)(20) == 4.0
    line = schedules.summary(optim, length)
    assert "peak 4 (--lr 1 x 1024 / 256)" in line and "20 steps of warm-up" in line


def test_a_path_stands_in_for_a_name() -> None:
    assert rates("math:sqrt", 1, 100)[25] == 0.5


def beyond(progress: float) -> float:
    return 1e39


@pytest.mark.parametrize(
    ("own", "gave"),
    [
        ("operator:neg", "-0.5"),
        ("builtins:str", "'0.5'"),
        ("cmath:sqrt", "j"),
        (f"{__name__}:beyond", "1e[+]39"),
    ],
)
def test_a_path_has_to_give_numbers_that_float32_takes(own: str, gave: str) -> None:
    rate_of = schedules.rate_function(optim_of(own), RunLength(1, 100))
    with pytest.raises(UsageError, match=rf"--schedule {own}: gave .*{gave}.* at 0.5"):
        rate_of(50)


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("cosin", "did you mean 'cosine'"),
        ("multistep", "give the epochs where it falls"),
        ("multistep:at=60/30", "one after the other"),
        ("multistep:at=30/30", "one after the other"),
        ("multistep:at=30,60", "no number '60'"),
        ("cosine:cycles=1.5", "not a whole number"),
        ("poly:pwr=2", "no number 'pwr'; did you mean 'power'"),
        ("step:every=0", "give 0.001 to 1e"),
    ],
)
def test_invalid_schedules_are_refused(spec: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as refused:
        components.parse(optim_of(spec))
    assert str(refused.value).startswith("--schedule ") and "\n" not in str(refused.value)


def test_a_rate_too_small_for_mxnet_is_zero() -> None:
    rate_of = schedules.rate_function(optim_of("exp:factor=0.1"), RunLength(1, 90))
    assert rate_of(20) == pytest.approx(1e-20 * rate_of(0))
    assert [rate_of(step) for step in (40, 60, 89)] == [0.0] * 3


def test_a_run_that_is_over_names_the_flag_that_ends_it() -> None:
    optim = config.Optim(epochs=3)
    assert "12 steps are done, and --epochs 3 (12 steps) allows" in schedules.nothing_left_message(
        optim, 4, 12
    )
    assert "12 steps are done, and --epochs 2 (8 steps) allows" in schedules.nothing_left_message(
        dataclasses.replace(optim, epochs=2), 4, 12
    )
    for most in (5, 11):
        said = schedules.nothing_left_message(dataclasses.replace(optim, max_steps=most), 4, 12)
        assert f"12 steps are done, and --max-steps {most} allows" in said and "--epochs" not in said


@pytest.mark.parametrize("name", components.SCHEDULES)
def test_the_docs_give_every_schedule_its_numbers(name: str) -> None:
    page = Path(__file__).parents[3] / "docs" / "optimizing.md"
    numbers = ", ".join(
        f"`{key}={number.default:g}`" if number.default != () else f"`{key}`"
        for key, number in components.SCHEDULES[name].numbers.items()
    )
    assert f"| `{name}` | {numbers}{' ' if numbers else ''}|" in page.read_text()
