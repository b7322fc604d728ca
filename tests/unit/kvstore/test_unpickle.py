"""No part of a hostile pickle runs, and the refusal names what it asks for."""

from __future__ import annotations

import builtins
import contextlib
import copyreg
import os
import pickle
import random
import subprocess
import time
import tracemalloc
from pathlib import Path
from typing import Any, Callable, ClassVar, Iterator

import numpy as np
import pytest

from mxtrain.kvstore import unpickle
from mxtrain.kvstore.unpickle import RefusedPickle


class Schedule:
    def __init__(self) -> None:
        self.base_lr = 0.5


class Optimizer:
    """An object that pickles as MXNet's optimizers do: without `param_dict`."""

    made: ClassVar[list[str]] = []

    def __init__(self, **attributes: Any) -> None:
        self.made.append("one")
        self.param_dict: dict[str, Any] = {"a": 1}
        self.lr = 0.1
        vars(self).update(attributes)

    def update(self) -> str:
        return "the method"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "param_dict"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        self.param_dict = {}


CLASSES = {f"{kind.__module__}.{kind.__name__}": kind for kind in (Optimizer, Schedule)}
HERE = Optimizer.__module__.encode()
BARE = b"ccopy_reg\n_reconstructor\n(c" + HERE + b"\nOptimizer\nc__builtin__\nobject\nNtR"
PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def read(body: bytes) -> Any:
    return unpickle.loads(body, CLASSES)


@pytest.mark.parametrize("fix_imports", [True, False])
def test_an_optimizer_is_read_as_pickle_would_read_it(fix_imports: bool) -> None:
    counts = {0: {"0_weight": 3}}
    sent = Optimizer(
        **{"rate": 1e-3, "big": 2**70, "minus": -1, "on": True, "off": False, "none": None},
        **{
            "nested": (1, (2.5, "x"), []),
            "list": [1, [2]],
            "text": "a\nb\\u0041\u00e9\u20ac'\"",
            "empty": (),
        },
        **{"inf": float("inf"), "counts": counts, "same": counts[0], "lr_scheduler": Schedule()},
    )
    body = pickle.dumps(sent, 0, fix_imports=fix_imports)
    Optimizer.made.clear()

    found, expected = read(body), pickle.loads(body)

    assert {**vars(found), "lr_scheduler": 0} == {**vars(expected), "lr_scheduler": 0}
    assert type(found) is Optimizer and vars(found.lr_scheduler) == {"base_lr": 0.5}
    assert found.same is found.counts[0], "what was one object has become two"
    assert found.param_dict == {} and Optimizer.made == []


class Call:
    """An object that pickles as a call of `function`."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def attacks(file: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield pickles that make `file` when they are loaded: a title, the name that they call, and the bytes."""
    code, touch = f"open({str(file)!r},'w')", f"touch {file}"
    calls = {
        "builtins.exec": Call(builtins.exec, code),
        "builtins.eval": Call(builtins.eval, code),
        "open": Call(builtins.open, str(file), "w"),
        "posix.system": Call(os.system, touch),
        "subprocess.check_call": Call(subprocess.check_call, ["touch", str(file)]),
        "numpy.core.multiarray._reconstruct": np.array([Call(os.system, touch)], dtype=object),
    }
    for name, call in calls.items():
        for protocol in PROTOCOLS:
            # Below protocol 3 modules have the names of Python 2.
            called = name.rpartition(".")[2]
            yield f"{name} by protocol {protocol}", called, pickle.dumps(call, protocol)
    for protocol in PROTOCOLS:
        body = pickle.dumps(Optimizer(lr_scheduler=calls["posix.system"]), protocol)
        yield f"an attribute of an optimizer, protocol {protocol}", "posix.system", body
    text = b"V" + touch.encode() + b"\n"
    by_hand = {
        "INST": b"(" + text + b"ios\nsystem\n.",
        "OBJ": b"(cos\nsystem\n" + text + b"o.",
        "STACK_GLOBAL": b"\x8c\x02os\x8c\x06system\x93(" + text + b"tR.",
        "STACK_GLOBAL, dotted": b"\x80\x04\x8c\x06shutil\x8c\x09os.system\x93(" + text + b"tR.",
        "GLOBAL, dotted": b"\x80\x04cshutil\nos.system\n(" + text + b"tR.",
        "below the top of the stack": b"(dcos\nsystem\n(" + text + b"tR0.",
        "after a whole optimizer": BARE + b"0cos\nsystem\n(" + text + b"tR.",
        "from the memo": b"cos\nsystem\np7\n0g7\n(" + text + b"tR.",
        "as a setter of state": BARE + b"(dV__setstate__\ncos\nsystem\nsb" + text + b"b.",
    }
    called = {"STACK_GLOBAL, dotted": "shutil.os.system", "GLOBAL, dotted": "shutil.os.system"}
    for way, body in by_hand.items():
        yield way, called.get(way, "os.system"), body


@pytest.mark.parametrize("way", [way for way, *_ in attacks(Path("nowhere"))])
def test_a_pickle_that_calls_a_function_is_refused_and_the_function_named(way: str, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    called, body = next(rest for name, *rest in attacks(marker) if name == way)

    with pytest.raises(RefusedPickle, match=rf"it asks for .*{called}"):
        read(body)
    assert not marker.exists()

    with contextlib.suppress(Exception):
        pickle.loads(body)
    assert marker.exists(), "this is no attack"


OPTIMIZER = b"c" + HERE + b"\nOptimizer\n"
NOT_IN_THE_LANGUAGE = {
    "a constructor called": OPTIMIZER + b"(tR.",
    "a constructor by INST": b"(i" + HERE + b"\nOptimizer\n.",
    "a constructor by OBJ": b"(" + OPTIMIZER + b"o.",
    "a constructor by NEWOBJ": b"\x80\x02" + OPTIMIZER + b")\x81.",
    "a constructor by NEWOBJ_EX": b"\x80\x04" + OPTIMIZER + b")}\x92.",
    "another base than object": BARE.replace(b"c__builtin__\nobject\n", OPTIMIZER) + b".",
    "object itself": BARE.replace(OPTIMIZER, b"c__builtin__\nobject\n") + b".",
    "the maker as a class": BARE.replace(OPTIMIZER, b"ccopy_reg\n_reconstructor\n") + b".",
    "arguments that are no tuple": b"ccopy_reg\n_reconstructor\n(lR.",
    "attributes of a class": OPTIMIZER + b"(dVupdate\nI1\nsb.",
    "slots of a class": OPTIMIZER + b"(N(dVupdate\nI1\nstb.",
    "slots of an object": BARE + b"(N(dVupdate\nI1\nstb.",
    "another method": BARE + b"(dVupdate\nI1\nsb.",
    "another class": BARE + b"(dV__class__\n" + OPTIMIZER + b"sb.",
    "a state for a dict": b"(d(db.",
    "a persistent id": b"Pcos.system\n.",
    "a persistent id from the stack": b"Vx\nQ.",
    "an extension": b"\x82\x01.",
    "a tuple as a key": b"(d(I1\nI2\ntI1\ns.",
    "a list with content": b"(I1\nI2\nl.",
    "an end without a value": b".",
    "nothing": b"",
    "no end": b"(d",
    "a mark that is not there": b"t.",
    "a memo that is not there": b"g5\n.",
    "text": b"hello",
}


@pytest.mark.parametrize("form", sorted(NOT_IN_THE_LANGUAGE))
def test_anything_but_plain_values_and_known_objects_is_refused(form: str) -> None:
    Optimizer.made.clear()
    with pytest.raises(RefusedPickle):
        read(NOT_IN_THE_LANGUAGE[form])
    assert Optimizer.made == [] and Optimizer().update() == "the method"


def test_a_registered_extension_is_not_followed() -> None:
    copyreg.add_extension("os", "system", 0x70)
    try:
        with pytest.raises(RefusedPickle, match="EXT1 112"):
            read(b"\x82\x70(Vtrue\ntR.")
    finally:
        copyreg.remove_extension("os", "system", 0x70)


def test_attributes_cannot_be_added_after_they_were_checked() -> None:
    found, later = read(b"(l" + BARE + b"(dp1\nbag1\nVupdate\nI1\nsa.")
    assert later == {"update": 1} and found.update() == "the method"


def test_text_is_not_taken_for_a_name() -> None:
    with pytest.raises(RefusedPickle):
        read(b"Vcopy_reg._reconstructor\n(V" + HERE + b".Optimizer\nV__builtin__.object\nNtR.")


BOMBS = {
    "a memo of a billion places": b"Vx\np1000000000\n" * 1000 + b".",
    "a memo of a billion places, binary": b"Vx\nr\xff\xff\xff\x7f.",
    "bytes that are not there": b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "a bytearray that is not there": b"\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "a number of gigabytes": b"\x8b\xff\xff\xff\x7f.",
    "a frame of exabytes": b"\x80\x05\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "a number of a million digits": b"I" + b"9" * 1_000_000 + b"\n.",
    "many long numbers": (b"L" + b"9" * 3_900 + b"L\n0") * 1_000 + b".",
    "a tuple whose hash takes for ever": b"(t"
    + b"".join(b"p%d\n0(g%d\ng%d\nt" % (n, n, n) for n in range(64))
    + b"p99\n0(dg99\nI1\ns.",
    "a million brackets": b"(l" * 1_000_000 + b"a" * 999_999 + b".",
    "more than an optimizer needs": b"(l" + b"I1\na" * 2_000_000 + b".",
}


@pytest.mark.parametrize("bomb", sorted(BOMBS))
def test_a_pickle_bomb_takes_little_time_and_memory(bomb: str) -> None:
    tracemalloc.start()
    started = time.monotonic()
    with contextlib.suppress(RefusedPickle):
        read(BOMBS[bomb])
    seconds = time.monotonic() - started
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 500e6 and seconds < 20


HARMLESS = (Optimizer, Schedule, dict, list, tuple, str, int, float, type(None))


@pytest.mark.filterwarnings("ignore:invalid escape sequence")
def test_a_damaged_pickle_is_read_or_refused() -> None:
    """A valid pickle with bytes changed, left out and put in: read, or RefusedPickle, and always of our classes."""
    rng = random.Random(0)
    whole = pickle.dumps(Optimizer(lr_scheduler=Schedule(), wd_mult={1: 0.5}), 0)
    num_read = 0
    for _ in range(3000):
        broken = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(broken))
            broken[at : at + rng.randint(0, 2)] = bytes(rng.choices(range(256), k=rng.randint(0, 2)))
        with contextlib.suppress(RefusedPickle):
            found = read(bytes(broken))
            assert isinstance(found, HARMLESS)
            num_read += 1
    assert 0 < num_read < 3000
