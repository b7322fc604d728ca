"""The scheduler and the servers of a cluster: ps-lite's loops, with a controller of ours.

Owns what a server does with the commands of workers. The stock one unpickles whatever reaches its port, and goes on
without an optimizer where that fails. Who belongs to the cluster and when it ends is `watch.py`'s.
"""

from __future__ import annotations

import ctypes
import json
import logging
import math
from typing import TYPE_CHECKING, Any, Callable

from mxtrain.errors import RESTART_ME, USAGE
from mxtrain.kv import unpickle
from mxtrain.runtime import mx
from mxtrain.train import own_optimizers

if TYPE_CHECKING:
    from mxtrain.kv.member import Member

logger = logging.getLogger(__name__)

CONTROLLER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


def serve(member: Member) -> None:
    """Be what the environment says, the scheduler or a server, until the job ends; as a rule `member` ends it first."""
    try:
        store = mx.kv.create("dist")
        controller = CONTROLLER(Controller(store, member))
        mx.base.check_call(mx.base._LIB.MXKVStoreRunServer(store.handle, controller, None))
    except mx.base.MXNetError as error:
        reason = str(error).strip().splitlines()[-1]
        member.fail(RESTART_ME, f"ps-lite cannot go on: {reason}")


class Controller:
    """What a server does with a command that any worker, or anybody who reaches its port, has sent."""

    def __init__(self, store: Any, member: Member):
        self.store, self.member = store, member
        self.optimizer: Any = None

    def __call__(self, head: int, body: bytes, _: Any) -> None:
        """ps-lite's entry. What is raised here would be printed and ignored, so it ends the job instead."""
        try:
            if head != 0:
                raise Refusal(f"a command with head {head}")
            if body.startswith(b"{"):
                self._obey(json.loads(body))
            else:
                self._set_optimizer(body)
        except Exception as error:
            self.member.fail(USAGE, f"refused what reached this server: {error}")

    def _set_optimizer(self, body: bytes) -> None:
        optimizer = unpickle.loads(body, known_classes())
        if not isinstance(optimizer, mx.optimizer.Optimizer):
            raise Refusal(f"a {type(optimizer).__name__} in the place of an optimizer")
        self.optimizer = optimizer
        self.store._set_updater(self._guarded(mx.optimizer.get_updater(optimizer)))
        logger.info("updates by %s", type(optimizer).__name__)

    def _obey(self, command: Any) -> None:
        rate = command.get("learning_rate")
        if not isinstance(rate, (int, float)) or not 0 <= rate < math.inf or self.optimizer is None:
            raise Refusal(f"the command {str(command)[:200]}")
        self.optimizer.set_learning_rate(rate)

    def _guarded(self, update: Callable[..., None]) -> Callable[..., None]:
        """An update that fails would leave the weights as they were, unseen."""

        def guarded(key: int, gradient: Any, weight: Any) -> None:
            try:
                update(key, gradient, weight)
            except Exception as error:
                name = type(self.optimizer).__name__
                self.member.fail(USAGE, f"{name} failed on a server: {type(error).__name__}: {error}")

        return guarded


class Refusal(Exception):
    """A command that this server does not follow."""


def known_classes() -> dict[str, type]:
    """What an optimizer may be made of: MXNet's optimizers and rate schedulers, and ours."""
    bases = (mx.optimizer.Optimizer, mx.lr_scheduler.LRScheduler)
    homes = (mx.optimizer.optimizer, mx.optimizer.contrib, mx.lr_scheduler, own_optimizers)
    found = [kind for home in homes for kind in vars(home).values() if isinstance(kind, type)]
    return {f"{kind.__module__}.{kind.__name__}": kind for kind in found if issubclass(kind, bases)}
