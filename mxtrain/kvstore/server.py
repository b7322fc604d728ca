"""The scheduler's and the servers' processes: ps-lite's loops, with a controller of ours.

Owns what a server does with the commands of workers. MXNet's own controller unpickles whatever reaches its port, and
continues without an optimizer where that fails. The members of the cluster and its end are `cluster/coordinator.py`'s.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import time
from typing import TYPE_CHECKING, Any, NoReturn

from mxtrain.cluster import ps_lite
from mxtrain.core.errors import RESTART_ME, USAGE, OutOfMemory, as_stop
from mxtrain.kvstore import commands, unpickle
from mxtrain.kvstore.server_updater import ServerUpdater
from mxtrain.kvstore.store import starting_ps_lite
from mxtrain.kvstore.workers_memory import WorkersMemory
from mxtrain.optim import extra_optimizers
from mxtrain.runtime import mx
from mxtrain.runtime.types import KVStore

if TYPE_CHECKING:
    from mxtrain.cluster.agent import Agent
    from mxtrain.runtime.types import NDArray

logger = logging.getLogger(__name__)

CONTROLLER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


def serve(agent: Agent) -> NoReturn:
    """Run ps-lite's scheduler or server, whichever the environment says, until `agent` ends this process."""
    try:
        store = mx.kv.create("dist")
        controller = CONTROLLER(Controller(store, agent))
        with starting_ps_lite():
            mx.base.check_call(mx.base._LIB.MXKVStoreRunServer(store.handle, controller, None))
    except mx.base.MXNetError as error:
        reason = str(error).strip().splitlines()[-1]
        agent.fail(RESTART_ME, f"ps-lite failed: {reason}")
    ps_lite.THREADS.stop_watching()
    # The workers have closed their stores, but may still exchange messages over the control channel.
    while True:
        time.sleep(60)


class Controller:
    """A server's response to a command, which any worker or anybody who reaches its port may have sent."""

    def __init__(self, store: KVStore, agent: Agent):
        self.store, self.agent = store, agent
        self.updater: ServerUpdater | None = None
        self.memory: WorkersMemory | None = None
        assignment = agent.assignment
        for number in assignment.memory_sockets:
            self.memory = WorkersMemory(number, assignment.num_workers, self._fail_in_memory)

    def __call__(self, head: int, body: bytes, _: Any) -> None:
        """Execute a command; called by ps-lite, which prints and ignores exceptions, so an error ends the attempt.

        Workers of this job send nothing that is refused.
        """
        try:
            if head != 0:
                raise ValueError(f"a command with head {head}")
            if not body.startswith(b"{"):
                self._set_optimizer(unpickle.loads(body, known_classes()))
            else:
                self._execute(commands.parse(body))
        except Exception as error:
            self._end_if_short_of_memory(error)
            self.agent.fail(RESTART_ME, f"refused a command: {error}; {ps_lite.STRANGERS}")

    def _execute(self, command: commands.Command) -> None:
        if isinstance(command, commands.AddInMemory):
            if self.memory is None:
                raise ValueError(f"{commands.text(command)} where no memory is shared")
            self.store._set_updater(functools.partial(self._add, self.memory))
        elif self.updater is not None:
            self.updater.execute(command)
        else:
            raise ValueError(f"{commands.text(command)} before an optimizer")

    def _add(self, memory: WorkersMemory, key: int, pushed: NDArray, stored: NDArray) -> None:
        try:
            memory.add(key, pushed, stored)
        except Exception as error:
            self._fail_in_memory(error)

    def _fail_in_memory(self, error: Exception) -> None:
        self._end_if_short_of_memory(error)
        self.agent.fail(RESTART_ME, f"sums in the workers' memory failed: {type(error).__name__}: {error}")

    def _set_optimizer(self, optimizer: object) -> None:
        if not isinstance(optimizer, mx.optimizer.Optimizer):
            raise ValueError(f"a {type(optimizer).__name__} in the place of an optimizer")
        self.updater = ServerUpdater(optimizer)
        self.store._set_updater(functools.partial(self._update, self.updater))
        logger.info("updates by %s", type(optimizer).__name__)

    def _update(self, updater: ServerUpdater, key: int, pushed: NDArray, stored: NDArray) -> None:
        """Update, and end the job if that fails: ps-lite would leave the weights as they were, unnoticed."""
        try:
            updater(key, pushed, stored)
        except Exception as error:
            self._end_if_short_of_memory(error)
            name = type(updater.optimizer).__name__
            self.agent.fail(USAGE, f"{name} failed on a server: {type(error).__name__}: {error}")

    def _end_if_short_of_memory(self, error: Exception) -> None:
        stop = as_stop(error)
        if isinstance(stop, OutOfMemory):
            self.agent.fail(stop.exit_code, str(stop))


def known_classes() -> dict[str, type]:
    """Return the classes that an optimizer's pickle may name: MXNet's optimizers and rate schedulers, and ours."""
    bases = (mx.optimizer.Optimizer, mx.lr_scheduler.LRScheduler)
    modules = (mx.optimizer.optimizer, mx.optimizer.contrib, mx.lr_scheduler, extra_optimizers)
    found = [class_ for module in modules for class_ in vars(module).values() if isinstance(class_, type)]
    return {f"{class_.__module__}.{class_.__name__}": class_ for class_ in found if issubclass(class_, bases)}
