"""The widths of a run's net: those of a checkpoint, of the net of --pretrained, or what --prune leaves of these.

Owns where widths come from, and building the net so narrow; how many channels remain, and which, is
`models/pruning.py`'s.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Mapping, NamedTuple

from mxtrain.checkpoint import initial_weights
from mxtrain.config import Model, program_objects
from mxtrain.core.errors import UsageError
from mxtrain.models import pruning
from mxtrain.models.contract import Contract
from mxtrain.models.pruning import Cut, Widths

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block

logger = logging.getLogger(__name__)


class ThinNet(NamedTuple):
    """Widths of a net that is not initialised yet, and how it gets weights."""

    widths: Widths  # empty for a net as its name has it
    cut: Cut | None  # how the weights of --pretrained become its own, where they are wider


def build_thin_net(
    net: Block, name: str, model: Model, contract: Contract, kept: Mapping[str, int] | None
) -> ThinNet:
    """Narrow a net, not initialised yet, to the widths that a checkpoint has `kept`; of a fresh run, as flags say."""
    before = dict(_widths_of_pretrained(model) if kept is None else kept)
    is_pruned = kept is None and model.prune > 0 and model.prune_by == "channel"
    if not before and not is_pruned:
        return ThinNet({}, None)
    if program_objects.is_object(model.model) or len(contract.inputs) != 1:
        what = (
            "is an object of a Python program"
            if program_objects.is_object(model.model)
            else "has several inputs"
        )
        raise UsageError(
            f"--prune-by channel: the net {what}, which is not taken apart; give --prune-by weight, or as --model a "
            "name or module:callable of a net with one input"
        )
    shape = (1, *contract.inputs[0])
    if before:
        pruning.remove_channels(net, pruning.groups_of(net, name, shape), before)
    if not is_pruned:
        return ThinNet(before, None)
    groups = pruning.groups_of(net, name, shape)
    widths = pruning.widths_after(name, groups, model.prune)
    pruning.remove_channels(net, groups, widths)
    logger.info("--prune %g: %s", model.prune, pruning.summary(groups, widths))
    return ThinNet({**before, **widths}, Cut(groups, widths))


def _widths_of_pretrained(model: Model) -> Mapping[str, int]:
    """Return the widths of a pruned net that a fresh run goes on with; none where that is another net."""
    state = initial_weights.pretrained_state(model.pretrained)
    is_same = state.get("config", {}).get("model") == model.model
    found: Mapping[str, int] = state.get("widths", {}) if is_same else {}
    return found
