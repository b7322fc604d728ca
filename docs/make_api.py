"""Writes docs/api.md from docstrings: `python docs/make_api.py`; a test holds them together."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from pathlib import Path
from typing import Any, Iterator

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

HEAD = """# Python

Made from docstrings by `python docs/make_api.py`. How to use it: [library.md](library.md). Flags: [flags.md](flags.md).
Tasks: [tasks.md](tasks.md).
"""


def render() -> str:
    from mxtrain.config import Run
    from mxtrain.convert import convert
    from mxtrain.core import errors
    from mxtrain.data.fields import BadSample, Field
    from mxtrain.evaluate import evaluate
    from mxtrain.export import export
    from mxtrain.export.comparison import Differences
    from mxtrain.export.exporting import Export
    from mxtrain.predict import predict
    from mxtrain.tasks.interfaces.data import TaskData
    from mxtrain.tasks.interfaces.learning import TaskLearning
    from mxtrain.tasks.task import Metric, Outcome, Score, Task, TaskPrediction
    from mxtrain.train.library.from_python import fit
    from mxtrain.train.library.hooks import Moment
    from mxtrain.train.library.result import Result
    from mxtrain.tune import Search, tune

    sections: dict[str, dict[Any, str]] = {
        "Training": {Run.of: "config", fit: "fit", Moment: "fit", Result: "fit", errors.StopTraining: "fit"},
        "Using what was trained": {
            **{evaluate: "evaluate", predict: "predict", export: "export", convert: "convert"},
            **{Export: "export.exporting", Differences: "export.comparison"},
        },
        "Searching": {tune: "tune", Search: "tune"},
        "Tasks of your own": {
            **{
                Task: "tasks.task",
                TaskData: "tasks.interfaces.data",
                TaskLearning: "tasks.interfaces.learning",
            },
            **dict.fromkeys((TaskPrediction, Outcome, Score, Metric), "tasks.task"),
            **dict.fromkeys((Field, BadSample), "data.fields"),
        },
        "Errors": dict.fromkeys((errors.UsageError, errors.DataError, errors.Diverged), "fit"),
    }
    parts = [HEAD]
    for title, members in sections.items():
        parts.append(f"\n## {title}\n")
        parts.extend(text for member, module in members.items() for text in _described(member, module))
    return "".join(parts)


def _described(member: Any, module: str) -> Iterator[str]:
    """Yield the text of a function, or of a class and then of its own public methods."""
    name = member.__qualname__
    yield f"\n### {name}\n\n`from mxtrain.{module} import {name.split('.')[0]}`\n"
    if inspect.isfunction(member) or inspect.ismethod(member):
        yield f"\n```python\n{_signature(member)}\n```\n"
    elif hasattr(member, "_fields"):
        defaults = {own: f"={_in_quotes(value)}" for own, value in member._field_defaults.items()}
        yield f"\n```python\n{name}({', '.join(own + defaults.get(own, '') for own in member._fields)})\n```\n"
    yield f"\n{_as_markdown(inspect.getdoc(member) or '')}\n"
    for own, value in vars(member).items() if inspect.isclass(member) else ():
        function = getattr(value, "fget", None) or getattr(value, "__func__", value)
        if not own.startswith("_") and inspect.isfunction(function) and function.__doc__:
            kind = (
                "property "
                if isinstance(value, property)
                else "class "
                if isinstance(value, classmethod)
                else ""
            )
            yield f"\n**{kind}`{_signature(function)}`**: {_as_markdown(inspect.getdoc(function) or '')}\n"


def _signature(function: Any) -> str:
    """Return the signature as it is in the source, which no version of Python writes otherwise."""
    source = textwrap.dedent(inspect.getsource(function))
    found = re.search(r"^def (.*?):\n +\"\"\"", source, re.DOTALL | re.MULTILINE)
    assert found, function
    return found[1]


def _in_quotes(value: Any) -> str:
    """Return a default as the formatter of this project writes it."""
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _as_markdown(doc: str) -> str:
    """Return a docstring with its sections as lists."""
    lines = []
    for line in doc.splitlines():
        heading, item = re.fullmatch(r"(\w+):", line), re.fullmatch(r"    (\w[\w, ]*): (.*)", line)
        if heading:
            line = f"**{heading[1]}**\n"
        elif item:
            line = f"- `{item[1]}`: {item[2]}"
        elif line.startswith("        "):
            line = f"  {line.strip()}"
        lines.append(line)
    return "\n".join(lines)


if __name__ == "__main__":
    Path(__file__).with_name("api.md").write_text(render())
