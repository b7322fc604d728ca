"""`evaluate --graph`: what a net consists of, as a table, JSON, a picture, and ONNX; of a run, or of a model by name.

Owns where the net comes from, and the files. A net by name is not computed: its graph says what there is to say, and
only ONNX needs weights, which are random then.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple

from mxtrain import config, runtime
from mxtrain.config import Run
from mxtrain.config.components import nets
from mxtrain.config.components import optimizers as optimizer_names
from mxtrain.core import durable
from mxtrain.core.errors import UsageError
from mxtrain.export import inference_graph
from mxtrain.export.drawing import net_drawing, net_page, net_words
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.inference import trained_run
from mxtrain.models import mxnet_errors, remat
from mxtrain.models.analysis import block_calls, layer_table
from mxtrain.models.analysis.layer_table import FLOAT32_BYTES, Net
from mxtrain.tasks.task import Task

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block

PICTURE = "graph.html"  # in the export/ of a run's folder
PICTURES = (".html", ".svg")
NUM_CLASSES = 1000  # of a net by name, as nets are published


class GraphOptions(NamedTuple):
    """The options of --graph: what is shown of a net, and how."""

    depth: int | None = None  # of the table, and of a picture
    as_json: bool = False
    picture: Path | None = None
    onnx: Path | None = None
    image_size: str = ""  # these two of a net by name
    num_classes: int | None = None


class DescribedNet(NamedTuple):
    """A net, with its weights where it is a run's."""

    title: str
    task: Task
    net: Block
    graph: InferenceGraph | None
    run_folder: Path | None


def show(named: Path, checkpoint: str | None, options: GraphOptions) -> str:
    """Write what is asked for of a run, a checkpoint or a model by name, and return what is to be printed."""
    check(options)
    with opened(named, checkpoint, options) as described_net:
        table = table_of(described_net)
        training = training_memory(described_net.task.run, table)
        written = []
        if options.picture is not None:
            path = usual_picture(described_net) if options.picture == Path() else options.picture
            _write(path, picture(table, described_net.title, training, path.suffix, options.depth).encode())
            written.append(f"{path}: the picture")
        if options.onnx is not None:
            _write(options.onnx, onnx_of(described_net))
            of = "" if described_net.graph else ", with random weights"
            written.append(f"{options.onnx}: ONNX, for Netron for instance{of}")
    if options.as_json:
        return json.dumps(net_words.as_json(described_net.title, table, training))
    words = net_words.table(table, options.depth), *net_words.totals(table, training)
    return "\n".join([f"{described_net.title}:", *words, *written])


def check(options: GraphOptions) -> None:
    """Refuse what cannot be asked for, before anything is loaded."""
    if options.picture is not None and options.picture != Path() and options.picture.suffix not in PICTURES:
        raise UsageError(f"--picture {options.picture}: give a name that ends with {' or '.join(PICTURES)}")
    if options.depth is not None and options.depth < 1:
        raise UsageError(f"--depth {options.depth}: give 1 or more")
    if options.num_classes is not None and options.num_classes < 1:
        raise UsageError(f"--num-classes {options.num_classes}: give 1 or more")
    for flag, path in (("--picture", options.picture), ("--onnx", options.onnx)):
        if path is None or path == Path():
            continue
        if path.is_dir():
            raise UsageError(f"{flag} {path}: is a folder; give the name of a file")
        if not path.parent.is_dir():
            raise UsageError(f"{flag} {path}: there is no folder {path.parent}")
    if options.onnx is not None:
        from mxtrain.export.onnx import onnx_export

        onnx_export.check_installed()


@contextlib.contextmanager
def opened(named: Path, checkpoint: str | None, options: GraphOptions) -> Iterator[DescribedNet]:
    """Yield the net of a run or checkpoint, or of a model by name; loads mxnet."""
    if not trained_run.is_run(named) and _is_model(str(named)):
        yield _by_name(str(named), options)
        return
    if not named.exists():
        raise UsageError(f"--graph {named}: is no run folder and no model's name{_similar(str(named))}")
    if options.image_size or options.num_classes:
        flag = "--image-size" if options.image_size else "--num-classes"
        raise UsageError(f"{flag}: goes with the name of a model; {named} is a run, which has its own")
    trained = trained_run.find_checkpoint(named, checkpoint, "cpu")
    for flag, path in (("--picture", options.picture), ("--onnx", options.onnx)):
        trained_run.refuse_output(flag, path, trained)
    run = trained_run.run_of(trained, {})
    task = trained_run.task_of(trained, run)
    is_in_run = trained.path.parent.name == "checkpoints"
    folder = trained.path.parent.parent if is_in_run else None
    runtime.load()
    with inference_graph.of_checkpoint(trained, run, task) as (net, graph):
        yield DescribedNet(
            f"{graph.name}, step {trained.state['step']} of {folder or trained.path}",
            task,
            net,
            graph,
            folder,
        )


def _is_model(word: str) -> bool:
    """Return whether a word is the name of a net, perhaps with numbers, or of a user's function."""
    return ":" in word or word in nets.NETS


def _by_name(name: str, options: GraphOptions) -> DescribedNet:
    flags = ["--model", name, *(["--image-size", options.image_size] if options.image_size else [])]
    net_name = nets.parse(name).name
    if nets.takes(net_name) in (nets.ARRAYS, nets.TEXTS):
        raise UsageError(
            f"--graph {name}: takes its sizes from the data; train it, for a step if that will do, and give the run"
        )
    is_lm = nets.takes(net_name) == nets.TOKENS
    if is_lm and (options.image_size or options.num_classes):
        raise UsageError(
            f"--graph {name}: is a language model, which has neither --image-size nor --num-classes"
        )
    run = config.parse([*flags, *(["--task", "lm"] if is_lm else [])])
    runtime.load()
    task = _lm(run) if is_lm else _classification(run, options.num_classes or NUM_CLASSES)
    return DescribedNet(f"--model {name}", task, task.build_net(), None, None)


def _lm(run: Run) -> Task:
    """Return the task of a language model of bytes."""
    from mxtrain.data.text import tokenizers
    from mxtrain.tasks.lm import LanguageModel

    numbers = {"vocab_size": tokenizers.BYTE_FORMAT.vocab_size, "end_token": tokenizers.BYTES_END}
    return LanguageModel(run, {"tokenizer": tokenizers.BYTES, **numbers, "window": run.data.window})


def _classification(run: Run, num_classes: int) -> Task:
    from mxtrain.tasks.classification import Classification

    return Classification.numbered(run, num_classes)


def _similar(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, [*nets.that_take(nets.PICTURES), *nets.that_take(nets.TOKENS)], 3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def table_of(described_net: DescribedNet) -> Net:
    """Return the operators of a net, for one sample."""
    shapes = inference_graph.inputs_of(described_net.task)
    net = remat.unwrapped(described_net.net)
    with block_calls.recorded(net) as calls:
        symbol = inference_graph.traced(net, described_net.title, list(shapes))
    batch = {name: (1, *shape) for name, shape in shapes.items()}
    parameters = described_net.net.collect_params().values()
    trained = {each.name for each in parameters if each.grad_req != "null"}
    try:
        return layer_table.of_symbol(symbol, calls, batch, trained)
    except (runtime.mx.base.MXNetError, ValueError) as error:
        takes = described_net.task.contract().takes
        raise UsageError(
            f"{described_net.title}: does not take {takes}: {mxnet_errors.reason_of(error)}"
        ) from None


def training_memory(run: Run, net: Net) -> dict[str, Any]:
    """Return what a device holds to learn by the run's optimizer, in bytes, but for what it computes.

    Of a program's own optimizer, which is not run for this, nothing is known.
    """
    from mxtrain.optim import optimizers
    from mxtrain.train.net import net_bytes

    shapes = [shape for each in net.operators for shape in each.trained_shapes]
    of_net = layer_table.sums(net)
    is_own = optimizer_names.parse(run.optim).name not in optimizer_names.OPTIMIZERS
    return {
        "optimizer": run.optim.optimizer,
        "weight_bytes": FLOAT32_BYTES * of_net.num_parameters,
        "gradient_bytes": FLOAT32_BYTES * of_net.num_trained,
        "state_bytes": None if is_own else net_bytes.state_bytes(optimizers.build(run.optim), shapes),
    }


def picture(net: Net, title: str, training: dict[str, Any], suffix: str, depth: int | None = None) -> str:
    """Return the picture as HTML, or as SVG."""
    if suffix == ".html":
        return net_page.page(net, title, training)
    opened_to = net_drawing.readable_depth(net, net.root) if depth is None else depth
    return net_drawing.svg(net, net.root, opened_to, title, is_alone=True)


def usual_picture(described_net: DescribedNet) -> Path:
    """Return where a run's picture goes; UsageError for what is no run's."""
    if described_net.run_folder is None:
        raise UsageError(
            "--picture: of what lies in no run's folder, say which file, such as --picture net.html"
        )
    path = described_net.run_folder / "export" / PICTURE
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise durable.cannot_write(path, error) from None
    return path


def onnx_of(described_net: DescribedNet) -> bytes:
    """Return the net as ONNX for one sample at a time, with the run's weights or with random ones."""
    from mxtrain.export.onnx import onnx_export

    graph = described_net.graph or _with_random_weights(described_net.task)
    with tempfile.TemporaryDirectory() as folder:
        files = onnx_export.write(graph, Path(folder), 1, {"made_by": "mxtrain evaluate --graph"})
        if files != [onnx_export.MODEL]:
            raise UsageError(
                "--onnx: this net is too large for one file; python -m mxtrain.export writes several"
            )
        return (Path(folder) / onnx_export.MODEL).read_bytes()


def _with_random_weights(task: Task) -> InferenceGraph:
    from mxtrain.tasks import registry as tasks
    from mxtrain.train.net import build_net

    run = dataclasses.replace(task.run, model=dataclasses.replace(task.run.model, amp="off"))
    task = tasks.of_description(run, task.description, task.objects)
    with build_net.compiling(run.model.amp):
        return inference_graph.of_net(build_net.build_to_train(task, build_net.devices_of("cpu")).net, task)


def _write(path: Path, content: bytes) -> None:
    with durable.whole_file(path) as file:
        file.write(content)
