"""`python -m mxtrain.report.sinks.wandb_process RUN POSITION SECONDS`: sends metrics.jsonl to W&B as it grows.

Started by `wandb_sink.py`, the one that speaks to it: a line on stdin, or its end, asks for the end; each line on
stdout is a remark for the run's log. Owns the W&B run: its id, and how much has been sent, are kept in the run folder,
so that a resumed run goes on in it. New records begin at POSITION of metrics.jsonl; what W&B has not been sent of the
older ones, of a run that it does not know yet all, goes before them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import netrc
import os
import secrets
import signal
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any, Iterator
from urllib.parse import urlparse

import yaml

from mxtrain.core import durable
from mxtrain.report.sinks.record import Record, numbers

POLL_SECONDS = 0.5
INIT_SECONDS = 30
NICENESS = 10  # training is what this machine is for


def main() -> None:
    out, position, end_seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    # The run ends first, and this process with it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICENESS)
    ending = threading.Event()
    threading.Thread(target=_wait_for_end, args=(ending, os.getppid(), end_seconds), daemon=True).start()
    folder = out / "logs" / "wandb"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock, (out / "metrics.jsonl").open("rb") as file:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until a killed attempt's process has sent the rest of that
        sent = Sent(folder / "run.json")
        sent.lines = skip(file, sent.lines, position)
        sent.save()
        run = begin(out, sent.run_id)
        for rows, num_lines in batches(file, ending):
            for row in rows:
                run.log(row, step=sent.rows)
                sent.rows += 1
            sent.lines += num_lines
            sent.save()
        run.finish()


class Sent:
    """The W&B run of a run folder, and how much of metrics.jsonl it has; W&B takes no row whose number it has seen."""

    def __init__(self, path: Path):
        self._path = path
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.run_id = known.get("id") or os.environ.get("WANDB_RUN_ID") or secrets.token_hex(4)
        self.rows, self.lines = known.get("rows", 0), known.get("lines", 0)

    def save(self) -> None:
        durable.replace(self._path, json.dumps({"id": self.run_id, "rows": self.rows, "lines": self.lines}))


def skip(file: IO[bytes], num_lines: int, position: int) -> int:
    """Read over so many lines, but not past `position`; return how many there were."""
    skipped = 0
    while skipped < num_lines and file.tell() < position:
        file.readline()
        skipped += 1
    return skipped


def batches(file: IO[bytes], ending: threading.Event) -> Iterator[tuple[list[dict[str, Any]], int]]:
    """Yield what is to be logged, the numbers of all records of a step together, and of how many lines it is.

    Ends when `ending` is set and the file has no more whole lines.
    """
    rest, is_last = b"", False
    while not is_last:
        is_last = ending.is_set()  # before the file is read: what was written until then is sent
        *lines, rest = (rest + file.read()).split(b"\n")
        rows: list[dict[str, Any]] = []
        for record in map(json.loads, lines):
            if not rows or rows[-1]["step"] != record["step"]:
                rows.append({})
            rows[-1].update(row_of(record))
        if lines:
            yield rows, len(lines)
        if not is_last:
            ending.wait(POLL_SECONDS)


def row_of(record: Record) -> dict[str, Any]:
    """Return a record as W&B takes it; an event is a number that marks its step, and words."""
    row: dict[str, Any] = {"step": record["step"], "epoch": record["epoch"]}
    if record["kind"] != "event":
        return {**row, **numbers(record)}
    return {**row, f"events/{record['event']}": record.get("attempt", 1), "event": record["text"]}


def begin(out: Path, run_id: str) -> Any:
    """Begin or go on with the W&B run, offline where there is no login or no network; WANDB_* variables win."""
    import wandb

    config = yaml.safe_load((out / "config.yaml").read_text(encoding="utf-8"))
    tags = [str(config[name]) for name in ("task", "model") if config.get(name)]
    defaults = {
        "project": ("WANDB_PROJECT", "mxtrain"),
        "name": ("WANDB_NAME", out.name),
        "tags": ("WANDB_TAGS", tags),
    }
    arguments: Any = {
        name: value for name, (variable, value) in defaults.items() if not os.environ.get(variable)
    }
    settings = wandb.Settings(
        console="off",
        silent=True,
        disable_git=True,
        disable_code=True,
        x_disable_stats=True,
        init_timeout=INIT_SECONDS,
    )
    mode = os.environ.get("WANDB_MODE") or "online"
    if mode == "online" and not has_login():
        mode = "offline"
        say("no login is known (wandb login, or WANDB_API_KEY)", out)

    def init(mode: str) -> Any:
        place: Any = {"id": run_id, "resume": "allow", "dir": str(out / "logs"), "mode": mode}
        return wandb.init(config=config, settings=settings, **arguments, **place)

    try:
        run = init(mode)
    except wandb.Error as error:
        if mode != "online":
            raise
        say(" ".join(str(error).split()), out)
        wandb.teardown()  # or this process's service of W&B would have the run still
        run = init("offline")
    run.define_metric("step")
    run.define_metric("*", step_metric="step")
    return run


def has_login() -> bool:
    """Return whether W&B would find credentials: in variables, or in the file in which `wandb login` leaves them."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = urlparse(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    for path in (os.environ.get("NETRC"), "~/.netrc", "~/_netrc"):
        with contextlib.suppress(OSError, netrc.NetrcParseError):
            if path and netrc.netrc(os.path.expanduser(path)).authenticators(host):
                return True
    return False


def say(why: str, out: Path) -> None:
    """Tell the run's log that W&B goes on offline."""
    folder = out / "logs" / "wandb"
    remark(f"{why}: offline; `wandb sync {folder}/offline-run-*` uploads the run later")


def remark(text: str) -> None:
    with contextlib.suppress(OSError):  # the run may have been killed
        print(text, flush=True)


def _wait_for_end(ending: threading.Event, parent: int, end_seconds: float) -> None:
    """Set `ending` when stdin ends or the parent has gone, and end this process if it does not end by itself then."""

    def listen() -> None:
        sys.stdin.readline()
        ending.set()

    threading.Thread(target=listen, daemon=True).start()
    while not ending.wait(POLL_SECONDS):
        if os.getppid() != parent:  # a loader's process may hold the pipe's other end
            ending.set()
    time.sleep(end_seconds)
    remark(f"could not send all within {end_seconds:g} s; `wandb sync` uploads the rest")
    os._exit(0)


if __name__ == "__main__":
    main()
