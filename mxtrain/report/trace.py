"""The trace of a few steps: MXNet's operators and our stages on one clock, for Chrome's trace viewer and Perfetto.

Owns the file's form and the sums over it; measures nothing (`train/telemetry/profile.py` does). Pure.
"""

from __future__ import annotations

import json
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

ENGINE_ONLY = ("DeleteVariable",)  # MXNet's own housekeeping, as often as operators, and in no time
OWN_PROCESS = 1000  # beyond the number of any device
STAGES, OPERATORS = "stage", "operator"


class Span(NamedTuple):
    """A stretch of time with a name; times in microseconds since 1970."""

    name: str
    begin: float
    end: float
    device: str = ""  # of an operator
    thread: int = 0
    layer: str = ""

    @property
    def micros(self) -> float:
        return self.end - self.begin


class Total(NamedTuple):
    """All spans of one name together."""

    name: str
    micros: float
    calls: int


def operators_of(text: str) -> list[Span]:
    """Return the operators in what MXNet's profiler has written, in the order in which they began.

    A second file of a process is the rest of the first: it begins with a comma, and has no head.
    """
    head, bracket, rest = text.partition("[")
    body = rest if bracket and "traceEvents" in head else text
    end = body.rfind("]")
    body = (body[:end] if "displayTimeUnit" in body[end:] else body).strip().strip(",")
    events: list[dict[str, Any]] = json.loads(f"[{body}]")
    devices = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    begun: dict[tuple[Any, ...], list[float]] = {}
    spans = []
    for event in events:
        if event.get("cat") != OPERATORS or event["ph"] not in "BE" or event["name"] in ENGINE_ONLY:
            continue
        key = (event["pid"], event["tid"], event["name"])
        if event["ph"] == "B":
            begun.setdefault(key, []).append(event["ts"])
        elif begun.get(key):
            device = devices.get(event["pid"], f"device {event['pid']}")
            spans.append(Span(event["name"], begun[key].pop(), event["ts"], device, event["tid"]))
    return sorted(spans, key=lambda span: span.begin)


def to_json(operators: Sequence[Span], stages: Sequence[Span], steps: Sequence[Span], title: str) -> str:
    """Return the trace as a JSON text: each device of MXNet's is a process in it, and the training loop another."""
    devices = sorted({each.device for each in operators})
    threads = sorted({each.thread for each in operators})
    events: list[dict[str, Any]] = [_named("process_name", OWN_PROCESS, f"mxtrain: {title}")]
    for number, name in enumerate(("steps", "stages")):
        events.append(_named("thread_name", OWN_PROCESS, name, number))
    for number, device in enumerate(devices):
        events.append(_named("process_name", number, f"MXNet {device}"))
        used = {threads.index(each.thread) for each in operators if each.device == device}
        events += [_named("thread_name", number, f"engine thread {each}", each) for each in sorted(used)]
    begin = min((each.begin for each in (*operators, *stages, *steps)), default=0.0)
    for number, spans in enumerate((steps, stages)):
        events += [_complete(each, STAGES, OWN_PROCESS, number, begin) for each in spans]
    for each in operators:
        events.append(
            _complete(each, OPERATORS, devices.index(each.device), threads.index(each.thread), begin)
        )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"began": begin / 1e6}})


def _named(what: str, process: int, name: str, thread: int | None = None) -> dict[str, Any]:
    event = {"ph": "M", "name": what, "pid": process, "args": {"name": name}}
    return event if thread is None else {**event, "tid": thread}


def _complete(span: Span, category: str, process: int, thread: int, begin: float) -> dict[str, Any]:
    event: dict[str, Any] = {
        **{"ph": "X", "name": span.name, "cat": category, "pid": process, "tid": thread},
        **{"ts": round(span.begin - begin, 3), "dur": round(span.micros, 3)},
    }
    return {**event, "args": {"layer": span.layer}} if span.layer else event


def totals(spans: Iterable[Span], by: str = "name") -> list[Total]:
    """Return the sums of spans with the same `by`, longest first; spans for which it is empty are left out."""
    sums: dict[str, tuple[float, int]] = {}
    for span in spans:
        micros, calls = sums.get(getattr(span, by), (0.0, 0))
        sums[getattr(span, by)] = micros + span.micros, calls + 1
    found = [Total(name, *each) for name, each in sums.items() if name]
    return sorted(found, key=lambda total: -total.micros)


def busy_micros(operators: Sequence[Span]) -> float:
    """Return the time in which at least one operator ran."""
    busy, until = 0.0, 0.0
    for span in operators:  # in the order of their begin
        busy += max(0.0, span.end - max(span.begin, until))
        until = max(until, span.end)
    return busy


def seconds_of(stages: Sequence[Span]) -> Mapping[str, float]:
    """Return the seconds of each stage."""
    return {total.name: total.micros / 1e6 for total in totals(stages)}
