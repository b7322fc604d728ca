"""A page as one HTML file that needs nothing else: styles, scripts, plotly's too, and the data of the runs.

Owns what keeps it closed: its Content-Security-Policy lets only the scripts run whose hashes it has, and lets nothing
be asked of any address. Data is JSON in an element that no browser runs; the scripts show it as text.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
import re
from pathlib import Path
from typing import Any

from mxtrain.core.errors import UsageError

PARTS = Path(__file__).parents[1] / "assets"
_SELF, _NONE = "'self'", "'none'"
SHARED_SCRIPTS = ("dom.js", "plots.js")
SCRIPTS = ("dom.js", "plots.js", "learning.js", "work.js", "outcome.js", "main.js")  # in this order


def page(data: dict[str, Any]) -> str:
    """Return the HTML of a page that shows what `page_data` has made."""
    names = [run["name"] for run in data["runs"]]
    title = names[0] if len(names) == 1 else f"{len(names)} runs"
    return document(title, data, _script(SCRIPTS), is_live=data["live"])


def document(title: str, data: dict[str, Any], script: str, is_live: bool = False) -> str:
    """Return the HTML of a closed page in which `script` shows `data`, which it finds in an element of that name."""
    plotly = plotly_script()
    parts = {
        "policy": policy([script, plotly], is_live),
        "title": html.escape(title[:100]),
        "style": _part("page.css"),
        "data": as_json(data),
        "plotly": plotly,
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _part("page.html"))


def policy(scripts: list[str], is_live: bool) -> str:
    """Return the Content-Security-Policy of a page with these scripts; a live one asks its own server for more."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        f"connect-src {_SELF if is_live else _NONE}; base-uri 'none'; form-action 'none'"
    )


def as_json(data: Any) -> str:
    """Return JSON in ASCII that ends no script element and begins no comment, whatever strings it holds."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def version_of(run: dict[str, Any]) -> str:
    """Return a word that changes when anything that the page shows of a run does."""
    return hashlib.sha256(as_json(run).encode()).hexdigest()[:16]


@functools.lru_cache(maxsize=1)
def plotly_script() -> str:
    """Return plotly's script, from the installed package; UsageError where there is none."""
    try:
        import importlib.util

        spec = importlib.util.find_spec("plotly")
        assert spec is not None and spec.submodule_search_locations
        folder = Path(spec.submodule_search_locations[0])
        text = (folder / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    except (ImportError, AssertionError, OSError):
        raise UsageError("a page needs plotly: pip install 'mxtrain[report]'") from None
    return re.sub(r"</(?=script)", r"<\\/", text, flags=re.IGNORECASE)


def shared_script() -> str:
    """Return the part of the script that has nothing of runs: elements, tables, plots and their colours."""
    return _script(SHARED_SCRIPTS)


@functools.lru_cache(maxsize=2)
def _script(names: tuple[str, ...]) -> str:
    return "\n".join(_part(name) for name in names)


def _part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")
