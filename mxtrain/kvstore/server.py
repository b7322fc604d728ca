"""The scheduler and the servers of a cluster: ps-lite's loops, with a controller of ours.

Owns what a server does with the commands of workers. The stock one unpickles whatever reaches its port, and goes on
without an optimizer where that fails. Who belongs to the cluster and when it ends is `cluster/coordinator.py`'s.
"""

from __future__ import annotations

import ctypes
import logging
import time
from typing import TYPE_CHECKING, Any, NoReturn

from mxtrain.cluster import unix_sockets
from mxtrain.core.errors import RESTART_ME, USAGE
from mxtrain.kvstore import commands, unpickle
from mxtrain.kvstore.updates import Updates
from mxtrain.optim import extra_optimizers
from mxtrain.runtime import mx

if TYPE_CHECKING:
    from mxtrain.cluster.agent import Agent

logger = logging.getLogger(__name__)

CONTROLLER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


def serve(member: Agent) -> NoReturn:
    """Be what the environment says, the scheduler or a server, until `member` or the watch ends this process."""
    try:
        store = mx.kv.create("dist")
        controller = CONTROLLER(Controller(store, member))
        with member.over_engine(), unix_sockets.private():
            mx.base.check_call(mx.base._LIB.MXKVStoreRunServer(store.handle, controller, None))
    except mx.base.MXNetError as error:
        reason = str(error).strip().splitlines()[-1]
        member.fail(RESTART_ME, f"ps-lite cannot go on: {reason}")
    # The workers have closed their stores, but may have things to do yet, and to tell each other.
    while True:
        time.sleep(60)


class Controller:
    """What a server does with a command that any worker, or anybody who reaches its port, has sent."""

    def __init__(self, store: Any, member: Agent):
        self.store, self.member = store, member
        self.updates: Updates | None = None

    def __call__(self, head: int, body: bytes, _: Any) -> None:
        """ps-lite's entry. What is raised here would be printed and ignored, so it ends the job instead."""
        try:
            if head != 0:
                raise ValueError(f"a command with head {head}")
            if not body.startswith(b"{"):
                self._set_optimizer(unpickle.loads(body, known_classes()))
            elif self.updates is None:
                raise ValueError(f"{body[:200]!r} before an optimizer")
            else:
                self.updates.obey(commands.parse(body))
        except Exception as error:
            self.member.fail(USAGE, f"refused what reached this server: {error}")

    def _set_optimizer(self, optimizer: Any) -> None:
        if not isinstance(optimizer, mx.optimizer.Optimizer):
            raise ValueError(f"a {type(optimizer).__name__} in the place of an optimizer")
        self.updates = Updates(optimizer)
        self.store._set_updater(self._update)
        logger.info("updates by %s", type(optimizer).__name__)

    def _update(self, key: int, pushed: Any, stored: Any) -> None:
        """An update that fails would leave the weights as they were, unseen."""
        try:
            self.updates(key, pushed, stored)
        except Exception as error:
            name = type(self.updates.optimizer).__name__
            self.member.fail(USAGE, f"{name} failed on a server: {type(error).__name__}: {error}")


def known_classes() -> dict[str, type]:
    """What an optimizer may be made of: MXNet's optimizers and rate schedulers, and ours."""
    bases = (mx.optimizer.Optimizer, mx.lr_scheduler.LRScheduler)
    homes = (mx.optimizer.optimizer, mx.optimizer.contrib, mx.lr_scheduler, extra_optimizers)
    found = [kind for home in homes for kind in vars(home).values() if isinstance(kind, type)]
    return {f"{kind.__module__}.{kind.__name__}": kind for kind in found if issubclass(kind, bases)}
