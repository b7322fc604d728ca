"""The HTML of a page: closed, and nothing of a run is markup in it. In a browser: e2e/results/test_report_page.py."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from mxtrain.core.errors import UsageError
from mxtrain.report import __main__ as report
from mxtrain.report.page import html_page
from tests.support.jobs import recorded_run


class Elements(html.parser.HTMLParser):
    """The elements of a page, with the texts of its scripts."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[tuple[str, dict[str, Any]]] = []
        self.scripts: list[str] = []
        self.in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found.append((tag, dict(attrs)))
        self.in_script = tag == "script"

    def handle_data(self, data: str) -> None:
        if self.in_script:
            self.scripts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self.in_script = False


def test_the_page_of_a_run_is_one_file_that_asks_for_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = recorded_run.write(tmp_path / "a", steps=20)
    assert report.main([str(folder)]) == 0
    assert str(folder / "report.html") in capsys.readouterr().out
    text = (folder / "report.html").read_text()
    elements = Elements(text)
    assert [tag for tag, _ in elements.found if tag in ("img", "iframe", "object", "base", "form")] == []
    addresses = [attributes.get(name) for _, attributes in elements.found for name in ("src", "href")]
    assert set(addresses) == {None, "data:,", "#main"}
    assert not re.search(r"https?://", text.replace(html_page.plotly_script(), ""))
    data, plotly, script = elements.scripts
    assert json.loads(data)["runs"][0]["name"] == "a"
    policy = next(a["content"] for _, a in elements.found if a.get("http-equiv") == "Content-Security-Policy")
    hashes = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (script, plotly)]
    assert "default-src 'none'" in policy and "connect-src 'none'" in policy and "unsafe-eval" not in policy
    assert re.findall(r"'sha256-([^']+)'", policy) == hashes


@pytest.mark.parametrize(
    "odd", ["</script><script>alert(1)</script>", "<!--<script>", "\u2028'\"\\{{script}}", "&lt;"]
)
def test_no_string_of_a_run_ends_its_element(odd: str) -> None:
    text = html_page.as_json({"name": odd})
    assert json.loads(text) == {"name": odd}
    assert text.isascii() and not set("<>&") & set(text)
    data = {"runs": [{"name": odd}], "live": False, "differences": [], "made": ""}
    elements = Elements(html_page.page(data))
    assert json.loads(elements.scripts[0]) == data
    assert [tag for tag, _ in elements.found].count("script") == 3


def test_without_plotly_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    html_page.plotly_script.cache_clear()
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "site-packages" not in path])
    monkeypatch.delitem(sys.modules, "plotly", raising=False)
    with pytest.raises(UsageError, match=re.escape("pip install 'mxtrain[report]'")):
        html_page.plotly_script()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "give a run"),
        (["nowhere"], "nowhere: is no folder"),
        (["--serve", "a"], "--serve a: is no port"),
        (["a", "--serve", "--png"], "--serve writes no file"),
    ],
)
def test_what_is_no_report_is_refused(
    words: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert report.main(words) == 2
    assert reason in capsys.readouterr().err


def test_nothing_that_a_page_is_made_of_is_replaced_by_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("val.rec", "val.idx"):
        (tmp_path / name).write_text(name)
    run = recorded_run.write(tmp_path / "a", steps=8, val=str(tmp_path / "val.rec"))
    (run / "checkpoints" / "step-8").mkdir(parents=True)
    (run / "checkpoints" / "step-8" / "state.json").write_text("{}")
    (tmp_path / "loss.png").symlink_to(run / "metrics.jsonl")
    (tmp_path / "page.html").symlink_to(run / "config.yaml")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for out in ("page.html", "a/metrics.jsonl", "a/checkpoints/step-8/state.json", "val.idx"):
        assert report.main([str(run), "--out", str(tmp_path / out)]) == 2
        assert f"--out {tmp_path / out}: is a" in capsys.readouterr().err
    assert report.main([str(run), "--png", "--out", str(tmp_path)]) == 2
    for path, content in before.items():
        assert path.read_bytes() == content, path
    for _ in range(2):
        assert report.main([str(run), "--out", str(run / "own.html")]) == 0
    for out in ("/", "."):
        assert report.main([str(run), "--out", out]) == 2
        assert "is a folder; give the name of a file" in capsys.readouterr().err


def test_curves_are_written_as_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [recorded_run.write(tmp_path / name, steps=8) for name in ("a", "$_b")]
    assert report.main(["--png", "--run", str(folders[0]), "--run", str(folders[1])]) == 0
    written = [Path(line.split("wrote ")[1]) for line in capsys.readouterr().out.splitlines()]
    assert {path.name for path in written} >= {"loss.png", "accuracy.png", "lr.png", "images_per_second.png"}
    assert all(path.parent == folders[0] / "report" for path in written)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)
