"""The page of a search, OUT/tune.html: one closed file, as a run's page is.

Owns what it shows; drawing is its script's.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import quote

import optuna

from mxtrain.report.page import html_page as pages
from mxtrain.tune import results
from mxtrain.tune import study as studies
from mxtrain.tune.search import Plan, folder_of

PARTS = Path(__file__).parent / "assets"
MOST_TRIALS = 5000  # whose curves are drawn


def page(plan: Plan, study: optuna.Study) -> str:
    """Return the HTML of a page about all trials so far."""
    return pages.document(plan.out.resolve().name, data(plan, study), pages.shared_script() + _script())


def data(plan: Plan, study: optuna.Study) -> dict[str, Any]:
    """Return what the page shows, as JSON has it."""
    rows = results.rows(study, plan.space, plan.score)[:MOST_TRIALS]
    best = studies.best(study)
    return {
        "name": plan.out.resolve().name,
        "made": time.strftime("%Y-%m-%d %H:%M:%S"),
        "planned": plan.num_trials,
        "value": f"val_{plan.score.name}",
        "lower": plan.score.is_lower_better,
        "best": best.number if best is not None else None,
        "flags": [
            {"name": name, "log": any(each.log for each in plan.space if each.flag == name)}
            for name in dict.fromkeys(each.flag for each in plan.space)
        ],
        "importance": importance(study),
        "trials": [_trial(plan, study, row) for row in rows],
    }


def _trial(plan: Plan, study: optuna.Study, row: dict[str, Any]) -> dict[str, Any]:
    number = row["trial"]
    trial = study.get_trials(deepcopy=False)[number]
    folder = folder_of(plan.out, trial.user_attrs.get("same_as", number))
    link = quote(f"trials/{folder.name}/")
    return {
        "number": number,
        "outcome": row["outcome"],
        "value": row[f"val_{plan.score.name}"],
        "step": row["step"],
        "seconds": row["seconds"],
        "reason": row["reason"],
        "flags": studies.flags_of(trial, plan.space),
        "curve": [trial.intermediate_values[step] for step in sorted(trial.intermediate_values)],
        "folder": link,
        "report": f"{link}report.html" if (folder / "report.html").exists() else None,
    }


def importance(study: optuna.Study) -> dict[str, float]:
    """Return the share of each parameter in how values differ; empty where too few trials have one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that few trials tell little
            # By default where optuna has it longest; the one before needs scikit-learn.
            found = optuna.importance.get_param_importances(
                study, evaluator=optuna.importance.PedAnovaImportanceEvaluator()
            )
    except (ValueError, RuntimeError, ImportError, AttributeError):
        return {}
    return {name: float(share) for name, share in found.items()}


def _script() -> str:
    return (PARTS / "tune.js").read_text(encoding="utf-8")
