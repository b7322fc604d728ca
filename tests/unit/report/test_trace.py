"""Traces: what MXNet's profiler writes is read, also a later piece of it, and words about what it says."""

from __future__ import annotations

import json
from typing import Any

from mxtrain.report import profile_advice, trace
from mxtrain.report.profile_advice import Facts
from mxtrain.report.trace import Span

HEAD = '{"traceEvents": [{"ph": "M", "args": {"name": "cpu/0"}, "pid": 0, "name": "process_name"}'
TAIL = '], "displayTimeUnit": "ms"}'
HERE = Facts("cpu", "off", has_bf16=True, is_compiled=True, is_own_net=False)


def events(*spans: tuple[str, int, int]) -> str:
    """Return what MXNet writes of operators: for each a begin and an end, behind a comma."""
    found = []
    for name, begin, end in spans:
        for phase, at in (("B", begin), ("E", end)):
            found.append({"name": name, "cat": "operator", "ph": phase, "ts": at, "pid": 0, "tid": 7})
    return "".join(f",\n{json.dumps(each)}" for each in found)


def ran(name: str, millis: float, calls: int = 10) -> list[Span]:
    return [Span(name, 0, 1e3 * millis / calls) for _ in range(calls)]


def first(*operators: list[Span], facts: Facts = HERE, **seconds: float) -> str:
    """Return what is to be done first about these operators, of one second of computing unless said otherwise."""
    spans = [span for each in operators for span in each]
    seconds = seconds or {"compute": 1.0}
    return profile_advice.advise(trace.totals(spans), seconds, 9e5, facts)


def test_operators_are_read_from_a_whole_file_and_from_a_later_piece() -> None:
    written = events(("dot", 10, 30), ("DeleteVariable", 31, 32), ("relu", 40, 45))
    for text in (HEAD + written + TAIL, HEAD + written, written + TAIL, written):
        found = trace.operators_of(text)
        assert [(each.name, each.begin, each.micros) for each in found] == [("dot", 10, 20), ("relu", 40, 5)]
    assert trace.operators_of(HEAD + written)[0].device == "cpu/0"
    assert trace.operators_of(HEAD + TAIL) == []


def test_a_trace_begins_at_its_first_span_and_names_processes() -> None:
    operators = [Span("dot", 2e6, 3e6, "cpu/1", 5, "out")]
    written: dict[str, Any] = json.loads(
        trace.to_json(operators, [Span("compute", 1e6, 4e6)], [Span("step 3", 1e6, 4e6)], "a net")
    )
    complete = {each["name"]: each for each in written["traceEvents"] if each["ph"] == "X"}
    assert (complete["dot"]["ts"], complete["dot"]["dur"]) == (1e6, 1e6)
    assert complete["dot"]["args"] == {"layer": "out"}
    assert complete["step 3"]["ts"] == complete["compute"]["ts"] == 0
    assert len({(each["pid"], each["tid"]) for each in complete.values()}) == 3
    names = {each["args"]["name"] for each in written["traceEvents"] if each["ph"] == "M"}
    assert names == {"mxtrain: a net", "steps", "stages", "MXNet cpu/1", "engine thread 0"}


def test_what_to_do_first_follows_from_where_the_time_went() -> None:
    convolutions = ran("_backward_Convolution", 500), ran("Convolution", 200), ran("clip", 100)
    assert first(*convolutions).startswith("--amp auto: Convolution takes 88%")
    no_bf16 = HERE._replace(has_bf16=False)
    assert first(*convolutions, facts=no_bf16).startswith("Convolution takes 88%")
    assert first(*convolutions, facts=HERE._replace(device="gpu")).startswith("--amp fp16")
    assert first(*convolutions, load=1.0, compute=1.0).startswith(
        "--cache ram, or more --loader-workers: 50%"
    )
    assert first(*convolutions, synchronize=1.0, compute=1.0).startswith("--batch-size larger: 50%")
    assert first(ran("clip", 900)).startswith("--model with plain relu")
    assert first(ran("_backward_LayerNorm", 900)).startswith("--micro-batch larger: LayerNorm")
    assert first(ran("_backward_Embedding", 900)).startswith("mxtrain.models.nets.sparse.SparseEmbedding")
    assert first(ran("multi_sgd_mom_update", 900)).startswith("--batch-size larger")
    tiny = ran("relu", 20, calls=1000)
    assert first(tiny).startswith("--micro-batch larger: operators take 20 us")
    assert first(tiny, facts=HERE._replace(is_compiled=False)).startswith("make the net a HybridBlock")
    assert first() == "no operator ran"


def test_lines_name_stages_operators_and_layers() -> None:
    operators = [
        Span("_backward_dot", 0, 300, layer="out"),
        Span("dot", 300, 400, layer="out"),
        Span("sum", 400, 420),
    ]
    stages = [Span("compute", 0, 900), Span("load", 900, 1000)]
    lines = profile_advice.lines(operators, stages, HERE)
    assert lines[0] == "stages: compute 90%, load 10%"
    assert lines[1].startswith("operators: dot backward 71% (1 x 0.3 ms), dot 24%")
    assert lines[2] == "layers: out 95% (2 x 0.2 ms)"
