"""The net of a run: built to be trained, or loaded from a checkpoint to be used.

Owns the time in which MXNet compiles and computes as a run wants it, which is all over the process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Collection, ContextManager, Iterator, Mapping, Sequence

from mxtrain import config
from mxtrain.checkpoint import initial_weights
from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.checkpoint.input_identity import description_of
from mxtrain.config import Run, batch_plan, program_objects
from mxtrain.config.components.choices import HOLD_ALL, HOLD_LAYERS
from mxtrain.config.program_objects import NO_OBJECTS, ProgramObjects
from mxtrain.core.errors import DataError, UsageError
from mxtrain.models import answers, remat, stages
from mxtrain.models.autocast.autocast import Forecast
from mxtrain.models.nets import zoo
from mxtrain.models.nets.table import tables_of
from mxtrain.models.parameters import fast_init, initializers, pretrained, weights
from mxtrain.models.pruning import Cut, Widths
from mxtrain.models.remat import SegmentedNet
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.optim import freeze, precision
from mxtrain.runtime import mx
from mxtrain.tables.saved_table import SavedTable
from mxtrain.tasks import registry as tasks
from mxtrain.tasks.task import Task
from mxtrain.train.net import thin_net

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, Device

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class BuiltNet:
    """A compiled net, and what is known of it since it was built."""

    net: Block
    forecast: Forecast  # of what runs in bfloat16
    widths: Widths  # empty for a net as its name has it


@contextlib.contextmanager
def compiling(amp: str) -> Iterator[None]:
    """A block in which nets are built, compiled and computed: by faster graphs, and in float16 if `--amp` says so."""
    with precision.casting(amp), zoo.rewriting():
        yield


@contextlib.contextmanager
def own_settings_kept(run: Run, objects: ProgramObjects) -> Iterator[None]:
    """A block after which a net that a Python program gave to the run, if it did, trains by none of the run's flags."""
    net = zoo.net_object(run.model.model, objects)
    with contextlib.nullcontext() if net is None else weights.training_settings_kept(net):
        yield


def standing_still(net: Block, run: Run, objects: ProgramObjects) -> ContextManager[None]:
    """Return a block in which the weights of the run's net do not change, so that it answers by joined layers.

    One that cannot, or that a Python program gave, goes on by its own graph.
    """
    if zoo.net_object(run.model.model, objects) is not None:
        return contextlib.nullcontext()
    return net.standing_still() if isinstance(net, SegmentedNet) else answers.standing_still(net)


def devices_of(names: str) -> list[Device]:
    """Return the MXNet devices that `--devices` names."""
    return [mx.Context(device_type, index) for device_type, index in batch_plan.parse_devices(names)]


def build_to_train(
    task: Task, devices: Sequence[Device], widths: Mapping[str, int] | None = None
) -> BuiltNet:
    """Return the net of the task's run as it is before the first step, compiled; call it inside `compiling`.

    With the `widths` of a checkpoint, which brings the weights, it holds zeros and none of --pretrained.
    """
    if not graph_rewrites.is_rewriting():
        raise RuntimeError("a net is built, and computed, inside `build_net.compiling`")
    run, model, is_fresh = task.run, task.run.model, widths is None
    device_type, micro_batch = devices[0].device_type, batch_plan.of_run(run).micro_batch
    narrowing = precision.autocast_of(model, device_type)
    is_named = "model" in task.flags or program_objects.is_object(model.model)
    flag, name = ("--model", model.model) if is_named else ("--task", model.task)  # for messages
    with tasks.in_code_of(task):
        own_net, contract = zoo.net_object(model.model, task.objects), task.contract()
        net = task.build_net() if own_net is None else own_net
    zoo.clear_added_gradients(net)
    thinned = thin_net.build_thin_net(net, name, model, contract, widths)
    frozen = freeze.freeze(net, model.freeze) if model.freeze else []
    named = weights.named_parameters(net)
    untrained = [name for name in frozen if named[name]._data is None]  # a user's net may bring weights
    if model.zero_gamma:
        initializers.zero_gamma(net, name)
    init, seed = model.init if is_fresh else initializers.ZEROS, run.optim.seed
    homes = devices if run.layout.stages == 1 else [mx.cpu()]  # parts go to their devices later
    with fast_init.in_less_time(net, init, seed):
        initializers.initialize(net, init, homes, seed)
        zoo.compile(net, name, homes, contract, narrowing, micro_batch, flag, bool(run.output.profile))
    if is_fresh:
        _load_pretrained(net, model, untrained, thinned.cut)
    if model.remat or run.layout.hold == HOLD_LAYERS:  # which computes as --remat does, where that is tried
        net = remat.recompute(net, name, (micro_batch, *contract.inputs[0]))
    if run.layout.stages > 1:
        net = stages.in_parts(net, f"--stages {run.layout.stages}", name, (micro_batch, *contract.inputs[0]))
    if model.amp in ("bf16", "auto"):
        logger.info("%s", precision.summary(model.amp, device_type, narrowing))
    return BuiltNet(net, narrowing.forecast if narrowing else Forecast(), thinned.widths)


def _load_pretrained(net: Block, model: config.Model, untrained: list[str], cut: Cut | None) -> None:
    """Load the weights of --pretrained, if any, and warn of frozen parameters that stay random."""
    taken: Collection[str] = ()
    if model.pretrained:
        taken = pretrained.load(net, initial_weights.weights_file("--pretrained", model.pretrained), cut)
    left = [name for name in untrained if name not in taken]
    pretrained.warn_of_untrained(model.freeze, left, model.pretrained)


def model_in_use(run: Run, like: Run, device: Device) -> config.Model:
    """Return the flags of the net of a trained `run` as it answers on a device, in the precision of the run `like`."""
    amp = precision.usable_amp(like.model.amp, device.device_type)
    table = like.model.amp_table if Path(like.model.amp_table).is_file() else ""
    own = run.model
    return config.Model(task=own.task, model=own.model, aux_weight=own.aux_weight, amp=amp, amp_table=table)


def load_trained(
    checkpoint: Checkpoint,
    devices: Sequence[Device],
    like: Run | None = None,
    run: Run | None = None,
    objects: ProgramObjects = NO_OBJECTS,
) -> Block:
    """Return the net of a checkpoint, with its averaged weights where it has some; of several with their mean.

    Inside `compiling`, as `build_to_train` is.
    The run `like` sets another image size and precision than the checkpoint's own `run`, which is given where the
    checkpoint does not know it all; `objects` are those of a Python program that stand in the place of its names.
    """
    state = checkpoint.state
    run = run or config.from_flat(state["config"])
    like = like or run
    model = model_in_use(run, like, devices[0])
    layout = dataclasses.replace(like.layout, hold=HOLD_ALL, stages=1)
    like = dataclasses.replace(like, model=model, layout=layout)
    task = tasks.of_description(like, description_of(state), objects)
    net = build_to_train(task, devices, checkpoint.widths).net
    try:
        weights.load(
            net, *(str(initial_weights.weights_of(path)) for path in (checkpoint.path, *checkpoint.others))
        )
    except DataError as error:
        hint = (
            "; the mean of weights is of nets of the same shape, --ensemble takes others"
            if checkpoint.others
            else ""
        )
        raise DataError(f"{error}{hint}") from None
    for table in tables_of(net):
        if checkpoint.others:
            raise UsageError(
                f"--checkpoint: table {table.options.name} has rows in one checkpoint each; give one"
            )
        table.source = SavedTable(checkpoint.path, table.options.name)
    return net
