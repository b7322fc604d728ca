"""The diagnosis of a run: what its records say is wrong, with the evidence and what to change (docs/diagnosis.md).

Owns which findings there are, most serious first, and which one says what another one says too. Each is a function of
a run's history that returns a Finding or None; none fires on the first steps, or on records that a run does not have.
"""

from __future__ import annotations

import logging
import textwrap
from pathlib import Path
from typing import Callable, Iterator, Sequence

from mxtrain.report import history
from mxtrain.report.diagnosis import (
    data,
    detection,
    layers,
    learning,
    rate,
    segmentation,
    speed,
    stability,
    workers,
)
from mxtrain.report.diagnosis.finding import Finding
from mxtrain.report.history import History

logger = logging.getLogger(__name__)

__all__ = ["Finding", "diagnose", "in_words", "remark"]

MOST_BYTES = 64e6  # of metrics.jsonl, some 100,000 steps: a remark takes a second at most
UNREMARKED = {"no-validation"}  # whoever gives no --val knows that
WIDTH = 110  # of a line in a terminal

CHECKS: tuple[Callable[[History], Finding | None], ...] = (
    rate.diverging,
    layers.exploding,
    layers.vanishing,
    layers.dead,
    rate.rate_too_high,
    rate.rate_too_low,
    learning.nothing_learnt,
    detection.poor_anchors,
    detection.not_found,
    segmentation.one_class,
    learning.overfitting,
    learning.underfitting,
    data.label_noise,
    data.imbalance,
    workers.straggler,
    speed.data_bound,
    speed.comm_bound,
    speed.idle_gpu,
    speed.evaluating,
    speed.saving,
    stability.memory_growing,
    stability.skipped_steps,
    stability.costly_restarts,
    learning.validation_missing,
)
# What is the cause of others makes them needless: their advice would be the same, or wrong.
EXPLAINS = {
    "diverging": {"learning-rate-too-high", "nothing-learnt", "underfitting", "overfitting", "skipped-steps",
                  "dead-activations", "class-imbalance", "boxes-not-found", "one-class-masks"},
    "exploding-gradients": {"diverging", "nothing-learnt", "underfitting"},
    "vanishing-gradients": {"learning-rate-too-low", "nothing-learnt", "underfitting", "class-imbalance"},
    "dead-activations": {"nothing-learnt", "underfitting", "class-imbalance"},
    "learning-rate-too-high": {"nothing-learnt", "underfitting", "class-imbalance"},
    "learning-rate-too-low": {"nothing-learnt", "underfitting", "class-imbalance"},
    "nothing-learnt": {"underfitting", "class-imbalance", "boxes-not-found", "one-class-masks"},
    "one-class-masks": {"underfitting", "class-imbalance"},
    "boxes-not-found": {"underfitting", "class-imbalance"},
    "poor-anchors": {"boxes-not-found", "overfitting"},
    "data-bound": {"gpu-idle"},
    "comm-bound": {"gpu-idle"},
    "straggler": {"comm-bound"},
    "evaluation-time": {"checkpoint-time"},  # each evaluation has a checkpoint before it, and one after it
}  # fmt: skip


def diagnose(run: History) -> list[Finding]:
    """Return what is wrong with a run, so far as its records tell; most serious first; none of a healthy one."""
    if not run.num_steps:
        return []
    found = [finding for check in CHECKS if (finding := _finding(check, run)) is not None]
    explained = set().union(*(EXPLAINS.get(finding.name, set()) for finding in found)) if found else set()
    return [finding for finding in found if finding.name not in explained]


def in_words(findings: Sequence[Finding]) -> str:
    """Return the findings for a terminal."""
    if not findings:
        return "Nothing stands out in these records."
    return "\n\n".join("\n".join(_lines(finding)) for finding in findings)


def remark(folder: Path) -> str:
    """Return a line about the most serious finding of a run that has ended; none of a healthy or very long one."""
    if (folder / "metrics.jsonl").stat().st_size > MOST_BYTES:
        return ""
    found = [each for each in diagnose(history.read(folder)) if each.name not in UNREMARKED]
    if not found:
        return ""
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    see = f"python -m mxtrain.report {folder} --text"
    return f"{found[0].name}: {found[0].evidence[0].rstrip('.')}; what to change{more}: {see}"


def _lines(finding: Finding) -> Iterator[str]:
    steps = f" (steps {finding.steps[0]} to {finding.steps[1]})" if finding.steps else ""
    yield f"{finding.name}: {finding.title}{steps}"
    for sentence in (*finding.evidence, f"-> {finding.advice}"):
        yield from textwrap.wrap(
            sentence, WIDTH, initial_indent="  ", subsequent_indent="     ", break_on_hyphens=False
        )


def _finding(check: Callable[[History], Finding | None], run: History) -> Finding | None:
    """Return what a check finds; nothing where records are not as docs/records.md has them, as of a damaged file."""
    try:
        return check(run)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        logger.warning("%s: is not judged by %s: its records are odd (%r)", run.path, check.__name__, error)
        return None
