"""The net of a job as its name describes it, before anything of it is built.

Owns which nets are known well enough, and the refusal of a job that cannot fit its host.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from mxtrain.config import Run, batch_plan
from mxtrain.config.components import nets
from mxtrain.core.errors import UsageError
from mxtrain.models.analysis import shapes
from mxtrain.models.contract import Shape
from mxtrain.models.parameters import weights
from mxtrain.optim import freeze, optimizers
from mxtrain.runtime import mx
from mxtrain.tasks import registry as tasks
from mxtrain.train.job import TrainingJob
from mxtrain.train.net import net_bytes, ways
from mxtrain.train.net.memory_plan import NetBytes

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, Symbol

MOST_COPIES = (
    20  # of the weights, with gradients, totals, any optimizer's state, and all copied for a checkpoint
)


logger = logging.getLogger(__name__)


class DescribedNet(NamedTuple):
    """A net whose parameters have shapes and no memory, its graph, and the shape of its one input."""

    net: Block
    output: Symbol
    input_shape: Shape


def of_job(job: TrainingJob) -> DescribedNet | None:
    """Return the net of a job; None where only building tells: a program's, a thinned one, no graph."""
    run, inputs = job.run, job.task.contract().inputs
    is_own = run.model.model.partition(":")[0] not in nets.NETS
    widths = job.checkpoint.widths if job.checkpoint is not None else {}
    if is_own or run.model.prune or run.model.pretrained or widths or len(inputs) != 1:
        return None
    # Names are counted: the net that is built has to get the ones that it would have had.
    with mx.name.NameManager(), tasks.in_code_of(job.task):
        net = job.task.build_net()
    shape = (job.plan.batch.micro_batch, *inputs[0])
    output = _graph_of(net)
    known = shapes.of_variables(output, shape) if output is not None else {}
    for parameter in net.collect_params().values():
        shape_of_net = known.get(parameter.name, parameter.shape)  # a head's chunks are in no graph
        if not shape_of_net or 0 in shape_of_net:
            return None
        parameter.shape = shape_of_net
    if run.model.freeze:
        freeze.freeze(net, run.model.freeze)
    assert output is not None
    return DescribedNet(net, output, shape)


def _graph_of(net: Block) -> Symbol | None:
    try:
        output: Any = net(mx.sym.var("data"))
    except Exception:  # whatever it is: building the net will say it
        return None
    return output if isinstance(output, mx.sym.Symbol) and len(output) == 1 else None


def num_bytes(job: TrainingJob, described_net: DescribedNet) -> NetBytes:
    """Return the bytes of a job's net."""
    net, output, shape = described_net
    known = net_bytes.with_optimizer(job.run, net, optimizers.build(job.run.optim, job.task.objects))
    in_loss = job.task.contract().loss_shape
    return net_bytes.of_graph(known, net.collect_params().values(), output, {"data": shape}, in_loss)


def lines(job: TrainingJob, run: Run, left: int) -> list[str]:
    """Return the table of the ways to train `run`, of which `job` is the part of its first worker; none if unknown."""
    described_net = of_job(job)
    if described_net is None:
        return []
    return ways.table(*_planned(run, job, described_net), left)


def check(job: TrainingJob, left: int, local_servers: int) -> None:
    """Raise UsageError where the processes of `job` on this host cannot fit into `left` bytes; warn where they may not.

    Only what they hold in each step counts against them.
    """
    described_net = of_job(job)
    if described_net is None:
        return
    all_weights = sum(map(net_bytes.num_bytes, weights.named_parameters(described_net.net).values()))
    # In almost all runs this is all that is looked at.
    most = all_weights * MOST_COPIES * job.plan.batch.num_devices
    if most * (job.group.local_workers + local_servers) <= left:
        return
    own, others = _planned(job.run, job, described_net)
    shortage = ways.shortage(own, others, left, job.group.local_workers, local_servers)
    if shortage is not None and shortage.is_sure:
        raise UsageError(f"--model {job.run.model.model}: {shortage.text}")
    if shortage is not None and job.group.is_first_on_host:
        logger.warning("--model %s: %s", job.run.model.model, shortage.text)


def _planned(
    run: Run, job: TrainingJob, described_net: DescribedNet
) -> tuple[ways.PlannedWay, list[ways.PlannedWay]]:
    trained = net_bytes.trained_of(described_net.net)
    processes = functools.partial(net_bytes.processes_of, batch=batch_plan.of_run(run), trained=trained)
    return ways.planned(run, num_bytes(job, described_net), processes, job.task.objects)
