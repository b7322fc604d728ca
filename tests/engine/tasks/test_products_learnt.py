"""What only products of rows tell is learnt by nets that have them, from rows of any small beginning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.config import Run
from mxtrain.fit import fit

USERS = ITEMS = 300


def likes(count: int, seed: int) -> dict[str, Any]:
    """Return who likes what: those whose tastes agree, so that everybody likes half of everything."""
    tastes = np.random.default_rng(0).choice((-1, 1), (USERS + ITEMS, 3))
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, USERS, count), rng.integers(0, ITEMS, count)
    return {"user": users, "item": items, "like": (tastes[users] * tastes[USERS + items]).sum(axis=1) > 0}


def best(out: Path, model: str, seed: int) -> float:
    run = Run.of(
        **{
            "task": "recommendation",
            "target": "like",
            "categories": "user,item",
            "model": model,
            "seed": seed,
        },
        **{"batch_size": 500, "micro_batch": 500, "optimizer": "adam", "lr": 0.005, "epochs": 3},
        **{"log": "none", "threads": 1, "out": out},
    )
    result = fit(run, train=likes(40_000, 1), val=likes(6000, 2))
    assert result.best is not None
    return float(result.best["val_auc"])


@pytest.mark.slow  # some seconds a run
@pytest.mark.timeout(300)
def test_dlrm_learns_products_from_small_rows(tmp_path: Path) -> None:
    for scale in (0.01, 0.02, 0.05):
        assert best(tmp_path / f"{scale}", f"dlrm:scale={scale}", seed=0) > 0.97, scale
    assert best(tmp_path / "large", "dlrm:scale=0.4", seed=0) < 0.8  # as docs/recommendation.md has it
