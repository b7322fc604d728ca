"""Make the golden folders of a version: `python -m tests.golden.make 07-seeing`, of all without a name.

A version's own code, from a checkout of its commit in a scratch folder, runs with this environment's packages in
/tmp/golden, so that no file names a place of this machine. What there is already stays: golden folders are made once.
Does not own what there is to make (`cases.py`) nor of what (`sources.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mxtrain import native
from mxtrain.core.system import kernels, wheels
from tests.golden import packs, sources
from tests.golden.cases import (
    COMMON,
    FOLDER,
    KILLED_STEP,
    SEARCH_BASE,
    SEARCH_FLAGS,
    SEARCH_SPACE,
    SEARCHES,
    VERSIONS,
    Case,
    Version,
    cases_of,
    data_of,
)
from tests.support import runs
from tests.support.commands import ROOT

HERE = Path(__file__).resolve().parent
PLACE = Path("/tmp/golden")  # neutral, the same on every machine
DEADLINE_SECONDS = 120
KEPT_OF_A_RUN = ("config.yaml", "environment.json", "metrics.jsonl", "checkpoints")
OF_THE_MACHINE = ("distributions", "lock", "platform")  # of environment.json, and of no use
OF_THE_PLACE = ("version", "config", "modules", "versions", "job")  # of state.json
PACKS = {
    # data: (the first version that packs it, the sources' ending, flags)
    "pictures": (1, "", ""),
    "lm": (1, ".jsonl", ""),
    "multilabel": (1, ".csv", "--multi-label"),
    "regression": (1, ".csv", "--multi-label"),
    "arrays": (6, ".csv", "--target arm"),
    "series": (6, ".npz", ""),
    "labelled_text": (6, ".jsonl", "--from labelled_text"),
    "tagged_text": (6, ".jsonl", "--from tagged_text"),
}


class Maker:
    """The commands of one version, and the folders that they make."""

    def __init__(self, version: Version, number: int, tree: Path):
        self.version, self.number, self.tree = version, number, tree
        self.work = PLACE / version.name
        self.folder = FOLDER / version.name

    def run(self, module: str, *arguments: object, code: int | None = 0, **environment: str) -> str:
        """Return what a command of the version prints on stdout; it has to end with this code, if one is given."""
        path = os.pathsep.join(map(str, (HERE / "driver", self.tree, PLACE)))
        done = subprocess.run(
            [sys.executable, "-m", module, *map(str, arguments)],
            cwd=self.work,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment},
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
        )
        if code is not None and done.returncode != code:
            raise SystemExit(
                f"{self.version.name}: {module} {arguments}: {done.returncode}\n{done.stderr[-3000:]}"
            )
        return done.stdout

    def pack(self) -> None:
        """Pack the sources as this version does; the source names of records stay relative."""
        (self.work / "data").mkdir(parents=True)
        for name, (since, ending, flags) in PACKS.items():
            for part in ("train", "val"):
                if name not in data_of(self.version) and (self.version.only or since > self.number):
                    continue
                source = (
                    PLACE
                    / "sources"
                    / (f"pictures/{part}" if name == "pictures" else f"{name}_{part}{ending}")
                )
                target = self.work / "data" / f"{name}_{part}.rec"
                self.run("tools.im2rec_wrapper", "pack", source, target, "--no-shuffle", *flags.split())
        for path in (self.work / "data").glob("*"):
            if path.name.endswith((".bad.tsv", ".sources.tsv")):
                path.unlink()
        for path in (PLACE / "sources").glob("one.*"):
            shutil.copy(path, self.work / "data")

    def fit(self, case: Case, out: Path, code: int | None = 0, **environment: str) -> None:
        """Train a run of this kind into a folder."""
        data = self.work / "data" / case.data
        flags = f"{COMMON} {case.flags}".format(plain=self.work / "plain.params").split()
        line = ("--train", f"{data}_train.rec", "--val", f"{data}_val.rec", *flags, "--out", out)
        self.run("mxtrain.fit", *line, code=code, **environment)

    def make(self, case: Case) -> None:
        """Make a killed run, and what the same one has come to where nothing stopped it."""
        ended, killed = (self.work / name / case.name for name in ("ended", "killed"))
        self.fit(case, ended)
        kill = {"GOLDEN_KILL_AT": KILLED_STEP, "GOLDEN_CHECKPOINT": case.checkpoint, "GOLDEN_OUT": killed}
        self.fit(case, killed, code=None, **{name: str(value) for name, value in kill.items()})
        checkpoint = killed / "checkpoints" / f"step-{case.checkpoint:08d}"
        assert checkpoint.is_dir() and len(list(checkpoint.parent.iterdir())) <= 2, list(
            checkpoint.parent.glob("*")
        )
        assert _last_step(killed) == KILLED_STEP - 1
        expected = {
            "computed_with": {
                "kernels": {**kernels.used(), **native.kernels()},
                "wheels": wheels.installed(),
            },
            "evaluation": self._evaluation(case, killed),
            "prediction": self._prediction(case, killed),
            "arrays": packs.digests_of_checkpoints(killed),
        }
        target = self.folder / "killed" / case.name
        target.mkdir(parents=True)
        for name in KEPT_OF_A_RUN:
            (shutil.copytree if (killed / name).is_dir() else shutil.copy)(killed / name, target / name)
        _neutral(target / "environment.json")
        end = self.folder / "ended" / case.name
        end.mkdir(parents=True)
        last = sorted((ended / "checkpoints").glob("step-*"))[-1]
        shutil.copy(last / "weights.params", end)
        expected["end"] = {path.name: packs.digest_of_arrays(path) for path in sorted(last.glob("*.params"))}
        state = json.loads((last / "state.json").read_text())
        expected["state"] = {name: state[name] for name in state if name not in OF_THE_PLACE}
        lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in expected.items()]
        (end / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
        curve = [json.dumps(each) + "\n" for each in runs.curve(ended) if each["kind"] in ("train", "eval")]
        (end / "metrics.jsonl").write_text("".join(curve))

    def make_searches(self) -> None:
        """Make a search that has ended, and the same one as a kill in its second trial left it."""
        for name, content in (("base.yaml", SEARCH_BASE), ("space.yaml", SEARCH_SPACE)):
            (self.work / name).write_text(content)
        for name in ("finished", "killed"):
            out = self.work / "searches" / name
            trial = out / "trials" / "0001"
            kill = (
                {"KILL_AT": "3", "CHECKPOINT": "2", "OUT": trial, "PARENT": "1"} if name == "killed" else {}
            )
            line = ("--config", "base.yaml", "--space", "space.yaml", "--out", out, *SEARCH_FLAGS)
            variables = {f"GOLDEN_{key}": str(value) for key, value in kill.items()}
            self.run("mxtrain.tune", *line, code=-signal.SIGKILL if kill else 0, **variables)
            target = self.folder / "searches" / name
            ignored = shutil.ignore_patterns("*.html", "logs", ".*", "*.log", "augmented")
            shutil.copytree(out, target, ignore=ignored)
            for path in target.rglob("environment.json"):
                _neutral(path)
            for path in target.rglob("step-00000004"):  # of a trial that has ended, and is never run again
                shutil.rmtree(path.parent)
            with contextlib.closing(sqlite3.connect(target / "study.db")) as database:
                database.execute("PRAGMA page_size = 512")
                database.execute("VACUUM")

    def make_export(self) -> None:
        """Export the run `plain` for MXNet, into its folder."""
        run = shutil.copytree(self.folder / "killed" / "plain", self.work / "exported")
        self.run("mxtrain.export", run, "--to", "symbol", "--val", self.work / "data" / "pictures_val.rec")
        shutil.copytree(run / "export", self.folder / "export")

    def _evaluation(self, case: Case, run: Path) -> Any:
        val = self.work / "data" / f"{case.data}_val.rec"
        return json.loads(self.run("mxtrain.evaluate", "--run", run, "--val", val, "--json"))

    def _prediction(self, case: Case, run: Path) -> Any:
        files = [self.work / "data" / each if each.startswith("one.") else each for each in case.predict]
        return [
            json.loads(line)
            for line in self.run("mxtrain.predict", "--run", run, "--json", *files).splitlines()
        ]


def _records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def _last_step(run: Path) -> int:
    return max(each["step"] for each in _records(run) if each["kind"] == "train")


def _neutral(path: Path) -> None:
    """Take the machine out of an environment.json, which no checksum covers."""
    found = json.loads(path.read_text())
    found = {name: value for name, value in found.items() if name not in OF_THE_MACHINE}
    found["command"] = ["python", *found["command"][1:]]
    if found["command"][1] != "-m":
        found["command"][1] = Path(found["command"][1]).name  # of a scratch folder
    found["host"] = "golden"
    path.write_text(json.dumps(found, indent=1) + "\n")


def make(version: Version, number: int, names: list[str]) -> None:
    """Make the folders of a version that are not there yet."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch, "tree")
        git = ("git", "-C", str(ROOT), "worktree")
        subprocess.run(
            [*git, "add", "--force", "--detach", str(tree), version.commit], check=True, capture_output=True
        )
        try:
            maker = Maker(version, number, tree)
            shutil.rmtree(maker.work, ignore_errors=True)
            maker.pack()
            data = maker.folder / "data"
            if not data.is_dir():
                shutil.copytree(maker.work / "data", data)
                (data / "digests.json").write_text(json.dumps(packs.digests(data)) + "\n")
            for case in cases_of(version):
                begun = maker.folder / "ended" / "plain" / "weights.params"
                if "{plain}" in case.flags:
                    shutil.copy(begun, maker.work / "plain.params")
                if not (maker.folder / "killed" / case.name).is_dir() and (not names or case.name in names):
                    print(version.name, case.name, flush=True)
                    maker.make(case)
            if version.name in SEARCHES and not (maker.folder / "searches").is_dir():
                print(version.name, "searches and an export", flush=True)
                maker.make_searches()
                maker.make_export()
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True, capture_output=True)


def main() -> None:
    """Make what the arguments name: a version, and kinds of runs of it; all without any."""
    name, *names = sys.argv[1:] or [""]
    shutil.rmtree(PLACE, ignore_errors=True)
    (PLACE / "sources").mkdir(parents=True)
    sources.write(PLACE / "sources")
    shutil.copy(HERE / "golden_nets.py", PLACE)
    for number, version in enumerate(VERSIONS, start=1):
        if name in ("", version.name):
            make(version, number, names)


if __name__ == "__main__":
    main()
