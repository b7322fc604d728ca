"""Which rewrites graphs on CPUs are put through, in their order."""

from __future__ import annotations

from typing import Sequence

from mxtrain.models.autocast.autocast import Autocast
from mxtrain.models.compiled_graphs import JUDGING, RECORDED, TRAINING
from mxtrain.models.rewrites import (
    broadcasts,
    clips,
    hard_sigmoids,
    inference_graphs,
    layer_norms,
    norm_relus,
    plain_arrays,
    rnn_weights,
)
from mxtrain.models.rewrites.graph_rewrites import ByPurpose, Rewrite
from mxtrain.models.rewrites.own import attentions, channel_runs, denses, reductions
from mxtrain.models.rewrites.repairs import concats, volumes

BEFORE_NARROWING = (
    volumes.with_padded_volumes,
    concats.with_trainable_concats,
    hard_sigmoids.with_right_gradients,
)
AFTER_NARROWING = (
    norm_relus.with_joined_relus,
    hard_sigmoids.with_hard_sigmoids,
    clips.with_fast_clips,
    plain_arrays.with_plain_arrays,
    rnn_weights.with_weights_by_rows,
)
TRAINING_REWRITES = (
    attentions.with_own_attention,
    denses.with_own_denses,
    channel_runs.with_channel_runs,
    layer_norms.with_fast_layer_norms,
    reductions.with_fast_reductions,
    broadcasts.with_fast_broadcasts,
)
JUDGING_REWRITES = (
    *inference_graphs.LAYERS_OF_TOKENS,
    denses.with_own_denses,
    channel_runs.with_evaluated_runs,
    inference_graphs.without_copies,
)
RECORDED_REWRITES = (norm_relus.with_relus_apart,)


def rewrites(narrowing: Autocast | None) -> Sequence[Rewrite]:
    """Return what graphs on CPUs are put through; `narrowing` chooses the operators that run in bfloat16."""
    return (*needed_rewrites(narrowing), *AFTER_NARROWING)


def by_purpose() -> ByPurpose:
    """Return what graphs that have been through `rewrites` are put through besides."""
    return {TRAINING: TRAINING_REWRITES, JUDGING: JUDGING_REWRITES, RECORDED: RECORDED_REWRITES}


def needed_rewrites(narrowing: Autocast | None) -> Sequence[Rewrite]:
    """Return those of `rewrites` without which a graph would be wrong, or in another precision."""
    return (*BEFORE_NARROWING, *([narrowing] if narrowing else []))
