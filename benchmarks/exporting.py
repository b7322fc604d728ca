"""Which nets can be exported, and how far their exports are from them: one of each family of GluonCV's classifiers.

    python -m benchmarks.exporting [--write] [--results runs/exporting.jsonl] [--only NAME[,NAME]] [--again]

Each net is built with random weights and running statistics, exported as MXNet's symbol and as ONNX for any number of
samples, loaded back, and compared with itself on 16 pictures of noise. Each has a process of its own with a deadline,
and what is known is kept in --results: the same command goes on after an interruption. `--write` puts the table into
docs/exporting.md. Exits with 1 where an export differs by more than is allowed to any.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import kept, parsing, processes, tables

DEADLINE_SECONDS = 600
PAGE = processes.ROOT / "docs" / "exporting.md"
SAMPLES, CLASSES = 16, 10
# The side of pictures, where it is another than 224.
SIZES = {"inceptionv3": 299, "xception": 299, "senet_154": 96}
NETS = (
    *("alexnet", "cifar_resnet20_v1", "cifar_resnet20_v2", "cifar_resnext29_32x4d", "cifar_wideresnet16_10"),
    *(
        "cifar_residualattentionnet56",
        "darknet53",
        "densenet121",
        "dla34",
        "googlenet",
        "hrnet_w18_small_v1_c",
    ),
    *("inceptionv3", "mobilenet0.25", "mobilenetv2_0.25", "mobilenetv3_small", "nasnet_4_1056"),
    *("residualattentionnet56", "resnest14", "resnet18_v1", "resnet18_v2", "resnet18_v1b", "resnet50_v1b_gn"),
    *("resnet50_v1d", "resnet18_v1b_0.89", "resnext50_32x4d", "se_resnet18_v1", "se_resnet18_v2"),
    *(
        "se_resnext50_32x4d",
        "senet_154",
        "shufflenet_v1",
        "shufflenet_v2",
        "squeezenet1.0",
        "vgg11",
        "vgg11_bn",
    ),
    "xception",
)


def main() -> int:
    """Measure what is not known yet, and print or write the table."""
    parser = parsing.parser("exporting", __doc__)
    parsing.add_page(parser, PAGE)
    parser.add_argument("--results", type=Path, default=Path("runs/exporting.jsonl"), help="what is known")
    parser.add_argument("--only", default=",".join(NETS), help="these nets")
    parser.add_argument("--again", action="store_true", help="measure what is known too")
    parser.add_argument("--one", help="measure this net in this process, and print it as JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.one)))
        return 0
    known = {} if options.again else kept.read(options.results, "name")
    for name in options.only.split(","):
        if "failed" in known.get(name, {"failed": "not tried yet"}):
            line = (sys.executable, "-m", "benchmarks.exporting", "--one", name)
            known[name] = {"name": name, **kept.in_a_process(*line, deadline_seconds=DEADLINE_SECONDS)}
            print(" | ".join(row(known[name])), file=sys.stderr, flush=True)
            kept.add(options.results, known[name])
    tables.write(options.write, "exporting", table([known[name] for name in NETS if name in known]))
    return int(any("failed" in each for each in known.values()))


def side_of(name: str) -> int:
    """Return the side of the pictures that a net takes here."""
    return 32 if name.startswith("cifar") else SIZES.get(name, 224)


def measured(name: str) -> dict[str, Any]:
    """Export a net in both ways, compare it with each, and return the differences."""
    import numpy as np

    from mxtrain.core.errors import UsageError
    from mxtrain.export import comparison, exporting, inference_graph, symbol_export
    from mxtrain.export.onnx import onnx_export
    from mxtrain.runtime import mx

    size = side_of(name)
    rng = np.random.default_rng(0)
    task, net = build(name, size)
    found: dict[str, Any] = {"name": name, "size": size, "parameters": 0}
    found["parameters"] = sum(int(np.prod(each.shape)) for each in net.collect_params().values())
    try:
        graph = inference_graph.of_net(net, task)
    except UsageError as error:
        return {**found, "refused": str(error)}
    pictures = [rng.normal(0, 1, (SAMPLES, 3, size, size)).astype(np.float32)]
    batches = exporting.of_some_sizes([{"data": each} for each in pictures])
    mx.nd.waitall()
    for kind in ("symbol", "onnx"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            if kind == "onnx":
                files = onnx_export.write(graph, path, None, {})
                answer = onnx_export.answers(path, None)
            else:
                files = symbol_export.write(graph, path)
                answer = symbol_export.answers(graph, path)
            apart = comparison.compare(net, graph, answer, batches)
            found[kind] = {**apart._asdict(), "bytes": sum((path / each).stat().st_size for each in files)}
            if apart.relative > exporting.TOLERANCES[kind]:
                found["failed"] = f"{kind}: {apart.in_words()}"
    return found


def build(name: str, size: int) -> tuple[Any, Any]:
    """Return the task and the net, with random weights and running statistics."""
    import numpy as np

    from mxtrain import config
    from mxtrain.models.parameters import initializers
    from mxtrain.runtime import mx
    from mxtrain.tasks.classification import Classification

    rng = np.random.default_rng(0)
    task = Classification.numbered(config.parse(["--model", name, "--image-size", str(size)]), CLASSES)
    net = task.build_net()
    initializers.initialize(net, "xavier", [mx.cpu()], 0)
    net(mx.nd.zeros((1, 3, size, size)))
    for key, parameter in net.collect_params().items():
        if key.endswith("running_mean"):
            parameter.set_data(mx.nd.array(rng.normal(0, 0.1, parameter.shape)))
        elif key.endswith("running_var"):
            parameter.set_data(mx.nd.array(rng.uniform(0.5, 1.5, parameter.shape)))
    return task, net


def table(known: list[dict[str, Any]]) -> str:
    """Return the table of what is known."""
    head = ("net", "pictures", "parameters", "symbol differs by", "ONNX differs by", "of the largest answer")
    return tables.markdown([*head, "same best class"], map(row, known))


def row(found: dict[str, Any]) -> list[str]:
    """Return a net's row."""
    if "size" not in found or "failed" in found:
        return [found["name"], f"failed: {found['failed']}", *[""] * 5]
    begin = [found["name"], str(found["size"]), f"{found['parameters'] / 1e6:.1f} M"]
    if "refused" in found:
        return [*begin, *["refused: no graph"] * 2, "", ""]
    symbol, onnx = found["symbol"], found["onnx"]
    numbers = (symbol["absolute"], onnx["absolute"], onnx["relative"])
    return [*begin, *(f"{each:.1e}" if each else "0" for each in numbers), f"{onnx['same_top1']:.0%}"]


if __name__ == "__main__":
    raise SystemExit(main())
