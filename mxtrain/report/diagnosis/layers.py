"""Findings about single layers: gradients that vanish or explode on their way back, and units that nothing reaches.

A layer's gradient is compared with its weights, and so with the other layers: lengths by themselves tell as much about
the loss's unit and the layer's size. Only parameters of two dimensions or more count, which `zero_rows` names.
"""

from __future__ import annotations

import numpy as np

from mxtrain.report.diagnosis.finding import Finding, Floats, as_number, listed, median, percent, setting
from mxtrain.report.history import History, Record

FEWEST_SAMPLES = 3
FIRST_STEP = 5  # before, a net with zero_gamma has layers that no gradient has reached yet
VANISHED = 1e-4  # of the layer with the longest gradient; trained nets of 50 layers stay above a hundredth
EXPLODED = 1e3  # times the weights themselves
GROWN = 1e3  # from the last layers to the first
SPIKE, FEWEST_SPIKES = 100.0, 3  # times the median of the gradient's length; a bad batch alone is no illness
FEWEST_NORMS = 50
DEAD = 0.5  # of a layer's units; ReLU nets live well with a fifth
STILL_MUCH = 0.002  # of the first loss: of smaller ones gradients may be too short for the grid of exact sums
FIRST_GRADIENT = (
    1e4  # of a run that diverges: the gradient's length before anything has moved; 1 to 100 is usual
)


def matrices(record: Record) -> list[str]:
    """Return the names of the parameters with outputs, in the order of the net."""
    gradients, rows = record.get("gradients") or {}, record.get("zero_rows") or {}
    return [name for name in gradients if name in rows]


def vanishing(history: History) -> Finding | None:
    """The first layers get next to no gradient."""
    records = _samples(history)
    names, shares = _relative(records)
    if len(records) < FEWEST_SAMPLES or len(names) < 2:
        return None
    typical = np.array([median(each) for each in shares.T])
    longest = np.nanmax(typical) if np.isfinite(typical).any() else np.nan
    hit = [name for name, each in zip(names, typical) if 0 < each < VANISHED * longest or each == 0]
    if not longest > 0 or not hit or names[-1] in hit:
        return None
    shortest = float(np.nanmin(typical))
    evidence = (
        f"Beside its weights the gradient of {names[int(typical.argmin())]} is {shortest / longest:.1g} times as "
        f"long as that of {names[int(np.nanargmax(typical))]}, in the median of {len(records)} sampled steps.",
        f"{len(hit)} of {len(names)} layers get less than {VANISHED:g} of it: {listed(hit)}.",
    )
    advice = (
        "--init msra: with ReLU in the place of sigmoid or tanh; a norm between layers or shortcuts around them "
        "(resnets have both) let gradients through"
    )
    return Finding(
        "vanishing-gradients", "Gradients vanish before the first layers", evidence, advice, _span(records)
    )


def exploding(history: History) -> Finding | None:
    """Gradients outgrow the weights, grow from layer to layer, or leap from time to time."""
    records = history.of_kind("layers")
    names, shares = _relative(records)
    evidence = _leaps(history) + _long_from_the_start(history)
    if len(records) and len(names):
        typical = np.array([median(each) for each in shares.T])
        hit = [name for name, each in zip(names, typical) if each > EXPLODED]
        if hit and len(records) >= min(FEWEST_SAMPLES, _num_expected(history)):
            longest = names[int(np.nanargmax(typical))]
            evidence += (
                f"The gradient of {longest} is {np.nanmax(typical):.1g} times as long as its weights, in the median of "
                f"{len(records)} sampled steps; so are {len(hit)} of {len(names)} layers: {listed(hit)}.",
            )
        elif len(names) > 2 and len(records) >= FEWEST_SAMPLES and typical[0] > GROWN * typical[-1] > 0:
            evidence += (
                f"From {names[-1]} back to {names[0]} the gradient beside the weights grows "
                f"{typical[0] / typical[-1]:.1g} times.",
            )
    if not evidence:
        return None
    clip = "a lower --clip-norm" if setting(history, "clip_norm", 0) else "--clip-norm 1"
    advice = (
        f"{clip}: or smaller initial weights (--init msra or xavier), a norm between layers, a lower --lr"
    )
    return Finding("exploding-gradients", "Gradients explode", evidence, advice, _span(records))


def _leaps(history: History) -> tuple[str, ...]:
    norms = history.column("gradient_norm")[history.num_steps // 4 :]  # the first steps are long in many runs
    known = norms[np.isfinite(norms)]
    usual = median(known)
    leaps = np.flatnonzero(known > SPIKE * usual)
    if len(known) < FEWEST_NORMS or not usual > 0 or len(leaps) < FEWEST_SPIKES:
        return ()
    if median(history.column("loss")[-20:]) < STILL_MUCH * median(history.column("loss")[:5]):
        return ()  # where nothing is left to learn, any sample that is still wrong leaps
    return (
        f"The gradient is {usual:.3g} long in the median and more than {SPIKE:g} times that in {len(leaps)} steps, "
        f"{np.nanmax(known):.3g} in the longest.",
    )


def _long_from_the_start(history: History) -> tuple[str, ...]:
    norms, losses = history.column("gradient_norm"), history.column("loss")
    if len(norms) < 2 or not norms[0] > FIRST_GRADIENT or np.isfinite(norms[-1]):
        return ()
    return (
        f"At the first step, before anything had moved, the loss was {losses[0]:.3g} and the gradient {norms[0]:.3g} "
        "long; soon they were no numbers.",
    )


def dead(history: History) -> Finding | None:
    """Most units of a layer get no gradient from any sample: whatever comes in, they answer zero."""
    records = _samples(history)[-FEWEST_SAMPLES:]
    if len(records) < FEWEST_SAMPLES or not _has_much_to_learn(history):
        return None
    if (
        setting(history, "task") == "detection"
    ):  # a map or a prediction without objects learns nothing in a step
        return None
    hit = {}
    for name in matrices(records[-1]):
        shares = [as_number((record.get("zero_rows") or {}).get(name)) for record in records]
        if min(shares) > DEAD:
            hit[name] = min(shares)
    if not hit:
        return None
    worst = max(hit, key=lambda name: hit[name])
    steps = [int(record["step"]) for record in records]
    evidence = (
        f"In each of the sampled steps {', '.join(map(str, steps))} {percent(hit[worst])} of the outputs of {worst} "
        "had a gradient of exactly zero.",
        f"Layers with more than {percent(DEAD)} of such outputs: {listed(hit)}.",
    )
    rate = as_number(history.config.get("lr"))
    lower = f"--lr {0.1 * rate:.3g}" if rate > 0 else "--lr, ten times lower"
    advice = (
        f"{lower} --warmup-epochs 1: a step that is too long pushes ReLUs below zero for good; or leaky ones"
    )
    return Finding("dead-activations", "Units are dead", evidence, advice, (steps[0], steps[-1]))


def _has_much_to_learn(history: History) -> bool:
    losses = history.column("loss")
    return not median(losses[-20:]) < STILL_MUCH * median(losses[:5])


def _samples(history: History) -> list[Record]:
    """Return the `layers` records from FIRST_STEP on."""
    return [record for record in history.of_kind("layers") if record["step"] >= FIRST_STEP]


def _num_expected(history: History) -> int:
    """Return of how many steps so far there can be samples: of a run that ended soon there are few."""
    return sum(step <= history.num_steps for step in (2, 5, 10)) or 1


def _relative(records: list[Record]) -> tuple[list[str], Floats]:
    """Return the layers, and a row for each record: how long each gradient is beside its weights."""
    names = matrices(records[-1]) if records else []
    rows = []
    for record in records:
        gradients, weights = record.get("gradients") or {}, record.get("weights") or {}
        lengths = [(as_number(gradients.get(name)), as_number(weights.get(name))) for name in names]
        rows.append([gradient / weight if weight > 0 else np.nan for gradient, weight in lengths])
    return names, np.array(rows, np.float64).reshape(len(rows), len(names))


def _span(records: list[Record]) -> tuple[int, int] | None:
    return (int(records[0]["step"]), int(records[-1]["step"])) if records else None
