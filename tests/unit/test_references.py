"""The names and files in backticks of docstrings, comments and docs exist; docstrings begin with a verb or a noun."""

from __future__ import annotations

import ast
import collections
import functools
import re
from pathlib import Path
from typing import Iterator, NamedTuple

from tests.support.checkout import ROOT, nodes_of, tracked

CODE = ("mxtrain", "tools", "benchmarks", "examples", "launch", "docs", "tests")
PAGES = (
    "ARCHITECTURE.md",
    "README.md",
    "CONTRIBUTING.md",
    ":(glob)docs/*.md",
)  # a decision may name what is gone

# Of users, and of other projects.
FOREIGN_FILES = {"tools/launch.py", "example/image-classification/README.md", "im2rec.py"}
# Of Python, MXNet and GluonCV, where our code does not use them itself.
FOREIGN_NAMES = {"find_class", "multi_sum_sq", "resnetv1b0_", "tostype"}
OTHER_FILES = re.compile(r"\.(c|idx|json|jsonl|md|npy|params|py|rec|sh|tsv|txt|yaml|yml)$")


class Reference(NamedTuple):
    text: str
    place: str


@functools.lru_cache(maxsize=None)
def docstrings(path: Path) -> list[tuple[int, str]]:
    """A module's docstrings with their lines."""
    found = []
    for node in nodes_of(path):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            value = getattr(node.body[0], "value", None) if node.body else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found.append((value.lineno, value.value))
    return found


# Python's own tokenizer takes ten times as long.
COMMENT_OR_STRING = re.compile(
    r"""(?P<comment>\#.*)|(?P<quotes>\"{3}|'{3}|["'])(?:\\[\s\S]|(?!(?P=quotes))[^\\])*(?P=quotes)"""
)


@functools.lru_cache(maxsize=None)
def prose_and_words(path: Path) -> tuple[list[tuple[int, str]], set[str]]:
    """A module's docstrings and comments, with their lines, and every word of the rest of its text."""
    text = path.read_text()
    prose = list(docstrings(path))
    lines = {line for line, _ in prose}
    code, end, line = [], 0, 1
    for token in COMMENT_OR_STRING.finditer(text):
        line += text.count("\n", end, token.start())
        code.append(text[end : token.start()])
        if token["comment"]:
            prose.append((line, token["comment"]))
        elif line not in lines:
            code.append(token[0])
        line += token[0].count("\n")
        end = token.end()
    return prose, set(re.findall(r"\w+", "".join([*code, text[end:]])))


def references() -> Iterator[Reference]:
    for path in tracked("*.py"):
        for line, text in prose_and_words(path)[0]:
            for found in re.findall(r"`([^`\n]+)`", text):
                yield Reference(found, f"{path.relative_to(ROOT)}:{line}")
    for path in tracked(*PAGES):
        text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M)
        for found in re.findall(r"`([^`\n]+)`", text):
            yield Reference(found, str(path.relative_to(ROOT)))


def test_files_named_in_backticks_exist() -> None:
    known = ["/" + str(path.relative_to(ROOT)) for path in tracked()]
    missing = []
    for text, place in references():
        is_of_ours = re.fullmatch(rf"({'|'.join(CODE)})/[\w./-]*", text)
        is_source = re.fullmatch(r"[\w./-]*\w\.(py|c|cpp|h|sh|md)", text)
        if (is_of_ours or is_source) and text not in FOREIGN_FILES:
            name = text.rstrip("/")
            if not any(path.endswith(f"/{name}") or f"/{name}/" in path for path in known):
                missing.append(f"{place}: {text}")
    assert not missing, "\n".join(missing)


def test_names_in_backticks_of_docstrings_and_comments_exist() -> None:
    """Each word of `train_step`, `group.rank` or `fit()` is used in code; `module.name` is used in that module."""
    words, of_module = set(FOREIGN_NAMES), collections.defaultdict(set)
    for path in tracked("*.py", "*.sh", "*.c", "*.toml", "Makefile"):
        found = (
            prose_and_words(path)[1] if path.suffix == ".py" else set(re.findall(r"\w+", path.read_text()))
        )
        words |= found
        if path.suffix == ".py":
            of_module[path.stem] |= found
            of_module[path.parent.name] |= {*found, path.stem} if path.stem == "__init__" else {path.stem}
    for top in CODE:
        of_module[top] |= {path.parent.name for path in tracked(f"{top}/*.py")}
    missing = []
    for text, place in references():
        if (
            ".py:" not in place
            or not re.fullmatch(r"[A-Za-z_][\w.]*(\(\))?", text)
            or OTHER_FILES.search(text)
        ):
            continue
        if re.fullmatch("[A-Z.]+", text):
            continue  # stands for something, as OUT does
        parts = re.findall(r"\w+", text)
        module, name = parts[-2:] if len(parts) > 1 else ("", parts[0])
        if not set(parts) <= words or (module in of_module and name not in of_module[module]):
            missing.append(f"{place}: {text}")
    assert not missing, "\n".join(missing)


QUESTION = re.compile(r"(What|Who|Whose|Whether|Where|How|By|With|Why|When)\b")


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in tracked("mxtrain/*.py", "tools/*.py")
        for line, text in docstrings(path)
        if QUESTION.match(text.strip())
    ]
    assert not found, "\n".join(found)


MOST_FILES = 3  # for an answer to one question of a newcomer
TOPIC = re.compile(r"`([\w/]+\.py)`(?: \(`(\w+)`\))?")


def answers() -> list[tuple[str, list[tuple[str, str]]]]:
    """The questions of ARCHITECTURE.md, each with the files that answer it and the name to look for in each."""
    section = (ROOT / "ARCHITECTURE.md").read_text().split("## Where is it?")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")][1:]
    return [(question.strip(), TOPIC.findall(files)) for question, files in rows]


def test_a_question_has_few_files_for_an_answer() -> None:
    assert len(answers()) >= 10
    for question, files in answers():
        assert 0 < len(files) <= MOST_FILES, question
        for file, name in files:
            path = ROOT / file if file.startswith("tools/") else ROOT / "mxtrain" / file
            assert re.search(rf"^ *(def|class) {name}\b|^{name}\b", path.read_text(), re.MULTILINE), (
                file,
                name,
            )
