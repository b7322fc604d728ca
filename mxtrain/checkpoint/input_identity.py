"""The identity of what a run reads: its data sets, initial weights and table for bfloat16; and its score.

Owns what a checkpoint keeps of them under which keys, so that a resume recognises them wherever they lie by then. Which
differences matter is decided in `resume.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

from mxtrain.checkpoint import initial_weights
from mxtrain.config import Run, autocast_costs
from mxtrain.data import fingerprint
from mxtrain.data.interfaces import Dataset


@dataclasses.dataclass(frozen=True)
class InputIdentity:
    """The fields are keys of state.json. Checkpoints written before a key existed have None there."""

    description: dict[str, Any]  # of the data, by the task that learns from it
    num_samples: int
    training_set: dict[str, str] | None = None  # fingerprints, see data/fingerprint.py
    validation_set: dict[str, str] | None = None
    pretrained: str | None = None  # SHA-256 of the weights of --pretrained and --teacher
    teacher: str | None = None
    scored_by: str | None = None  # the name of the number that decides
    amp_table: str | None = None  # hash of the times by which operators run in bfloat16

    @classmethod
    def of_run(
        cls,
        run: Run,
        train: Dataset,
        val: Dataset | None,
        description: dict[str, Any],
        scored_by: str | None = None,
    ) -> InputIdentity:
        """Return the identity of what `run` reads; a teacher of other data is refused here."""
        return cls(
            description=description,
            num_samples=len(train),
            training_set=fingerprint.fingerprint_of(train),
            validation_set=None if val is None else fingerprint.fingerprint_of(val),
            pretrained=initial_weights.pretrained_checksum(run),
            teacher=initial_weights.teacher_checksum(run, description),
            scored_by=scored_by,
            amp_table=autocast_costs.digest_of_run(run.model.amp, run.model.amp_table),
        )

    @classmethod
    def of_checkpoint(cls, state: Mapping[str, Any]) -> InputIdentity:
        """Return the identity that a checkpoint's `state` holds."""
        known = {**state, "description": description_of(state)}
        return cls(
            **{field.name: known[field.name] for field in dataclasses.fields(cls) if field.name in known}
        )

    def going_on_from(self, before: InputIdentity) -> InputIdentity:
        """Return the identity with which a run goes on: of a stream that is another one now, what was known of it then.

        Weights that were learnt from the one take samples of the other as they took those.
        """
        if not self.is_another_stream(before):
            return self
        return dataclasses.replace(
            self,
            description=before.description,
            training_set=before.training_set,
            scored_by=before.scored_by,
        )

    def is_another_stream(self, before: InputIdentity) -> bool:
        """Return whether both are of streams, which do not begin with the same samples."""
        begun = [(each.training_set or {}).get("beginning") for each in (self, before)]
        return None not in begun and begun[0] != begun[1]

    def to_dict(self) -> dict[str, Any]:
        """Return the keys and values for state.json."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def description_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of the data in a checkpoint's `state`; there was one task when there was no such key."""
    found: dict[str, Any] | None = state.get("description")
    return {"class_names": state["class_names"]} if found is None else found
