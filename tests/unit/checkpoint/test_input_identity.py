"""The identity of a run's inputs has the keys that checkpoints have always had, but that of class names."""

from __future__ import annotations

from mxtrain.checkpoint.input_identity import InputIdentity

CLASSES = {"class_names": ["a", "b"]}
PRINTS = {"labels": "0123", "keys": "4567"}


def test_its_keys_are_those_of_state_json() -> None:
    assert InputIdentity(CLASSES, 6, PRINTS, None, "ab12", None).to_dict() == {
        "description": CLASSES,
        "num_samples": 6,
        "training_set": PRINTS,
        "validation_set": None,
        "pretrained": "ab12",
        "teacher": None,
        "scored_by": None,
        "amp_table": None,
    }


def test_it_is_read_back_from_a_state_with_other_keys() -> None:
    identity = InputIdentity(CLASSES, 6, PRINTS, PRINTS, None, "cd34")
    assert InputIdentity.of_checkpoint({"step": 5, "score": None, **identity.to_dict()}) == identity


def test_a_checkpoint_from_before_fingerprints_has_none() -> None:
    before = InputIdentity.of_checkpoint({"class_names": ["a", "b"], "num_samples": 6})
    assert before == InputIdentity(CLASSES, 6, None, None, None, None)
