"""Choice of the checkpoint step that an attempt resumes from, over the disks of all workers.

Owns the rule of docs/distributed.md: all workers resume from one step, the newest that every disk holds; with
--min-workers a restarted job may leave out disks that its newest checkpoints have not reached. Does not own reading the
disks (`train/cluster/node_info.py`).
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from mxtrain.cluster.admission.rendezvous import NodeInfo
from mxtrain.cluster.environment import NodeSpec

FRESH = -1  # the resume step of a run that starts at step 1


class ResumeChoice(NamedTuple):
    """The step to resume from, and the workers that cannot because their disks lack it."""

    step: int
    left_out: tuple[NodeInfo, ...] = ()


def choose(workers: Sequence[NodeInfo], node: NodeSpec, min_workers: int = 0) -> ResumeChoice | str:
    """Return the resume step for these workers, FRESH to start at step 1, or a sentence why they cannot go on.

    `node` is the scheduler's place. Workers are left out only if the job is restarted, the others hold a step that it
    saved itself, and at least `min_workers` of them, not 0, do.
    """
    steps = _steps_of_disks(workers, node)
    holding = [folder for folder in steps if steps[folder]]
    if not holding or _died_in_first_checkpoint(workers, steps, node):
        return ResumeChoice(FRESH)
    common = set.intersection(*steps.values())
    if common:
        return ResumeChoice(max(common))
    return _without_outdated(workers, steps, node, min_workers) or _conflict(workers, steps)


def _steps_of_disks(workers: Sequence[NodeInfo], node: NodeSpec) -> dict[str, set[int]]:
    """Return the steps that the job may resume from, by disk: those that all workers on the disk could read."""
    steps: dict[str, set[int]] = {}
    for info in workers:
        eligible = _eligible(info, node)
        steps[info.folder] = steps.get(info.folder, eligible) & eligible
    return steps


def _eligible(info: NodeInfo, node: NodeSpec) -> set[int]:
    """--resume never or PATH applies to the job's first attempt, not to what the job has saved itself since."""
    return set(info.checkpoints) if info.config.get("resume", "auto") == "auto" else _own(info, node)


def _own(info: NodeInfo, node: NodeSpec) -> set[int]:
    """Return the steps that an earlier attempt of this job has saved."""
    saved = zip(info.checkpoints, info.savers)
    return {step for step, job in saved if job == node.job} if node.is_restart else set()


def _died_in_first_checkpoint(
    workers: Sequence[NodeInfo], steps: dict[str, set[int]], node: NodeSpec
) -> bool:
    """Return whether a death left the job's first checkpoint on some disks only.

    Later this cannot be: all disks have the first checkpoint before the second is written.
    """
    first = {folder: next(info for info in workers if info.folder == folder) for folder in steps}
    holding = [folder for folder in steps if steps[folder]]
    return len(holding) < len(steps) and all(
        len(steps[folder]) == 1 and steps[folder] <= _own(first[folder], node) for folder in holding
    )


def _without_outdated(
    workers: Sequence[NodeInfo], steps: dict[str, set[int]], node: NodeSpec, min_workers: int
) -> ResumeChoice | None:
    """Return the newest step that enough workers hold: those left out of an attempt miss what it saved and pruned."""
    own = {step for info in workers for step in _own(info, node)}
    for step in sorted(own, reverse=True):
        left_out = tuple(info for info in workers if step not in steps[info.folder])
        if 0 < min_workers <= len(workers) - len(left_out):
            return ResumeChoice(step, left_out)
    return None


def _conflict(workers: Sequence[NodeInfo], steps: dict[str, set[int]]) -> str:
    """Return the sentence that names two disks without a common step, and what to do."""
    rich = next(info for info in workers if steps[info.folder])
    poor = next((info for info in workers if not steps[info.folder]), None)
    if poor is not None:
        newest = max(steps[rich.folder])
        return (
            f"{poor} has no checkpoint in its --out, {rich} has step {newest}; copy "
            f"checkpoints/step-{newest:08d} there, or give all --resume never or another --out"
        )
    other = next((info for info in workers if not steps[info.folder] & steps[rich.folder]), workers[-1])
    return (
        f"{rich} has checkpoints of steps {_listed(rich.checkpoints)}, {other} of {_listed(other.checkpoints)}, "
        "and none in common; copy one over, or give all --resume never or another --out"
    )


def _listed(steps: Sequence[int]) -> str:
    return ", ".join(str(step) for step in sorted(steps)[-3:])
