"""`fit(...)` as a function: objects in the place of names, hooks, what it returns and what it leaves alone."""

from __future__ import annotations

import itertools
import json
import logging
import os
import signal
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mxtrain import runtime
from mxtrain.config import Run
from mxtrain.core.errors import DataError, UsageError, user_message
from mxtrain.core.system import kernels
from mxtrain.evaluate import evaluate
from mxtrain.fit import Moment, Result, StopTraining, fit
from mxtrain.models.parameters import weights
from mxtrain.optim import precision
from mxtrain.predict import predict
from mxtrain.runtime import mx
from mxtrain.tasks.classification import Classification
from mxtrain.train import signals
from mxtrain.train.library import process_isolation
from mxtrain.train.library.hooks import METHODS, Hooks
from mxtrain.train.net import build_net
from tests.support import amp
from tests.support.user_code import user_data

FLAGS = {"image_size": 16, "batch_size": 16, "micro_batch": 8, "lr": 0.05, "epochs": 2, "log": "none"}


@pytest.fixture(autouse=True)
def without_collections(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Save the time of Python's collector, which has all of pytest to go through; the test of memory needs it."""
    if "memory" not in request.node.name:
        monkeypatch.setattr(process_isolation.gc, "collect", lambda: None)


def pictures(num_samples: int = 32) -> tuple[Any, Any]:
    samples = list(user_data.dataset(num_samples))
    return np.stack([picture for picture, _ in samples]), np.array([label for _, label in samples])


def new_net() -> Any:
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, use_bias=False), nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D())
    net.add(nn.Dropout(0.1), nn.Dense(2))
    return net


def trained(out: Path, net: Any = None, **others: Any) -> Result:
    flags = {
        name: others.pop(name)
        for name in list(others)
        if name in (*FLAGS, "resume", "amp", "amp_table", "devices", "early_stop", "freeze", "layer_decay")
    }
    run = Run.of(**{**FLAGS, "out": out, **flags})
    data = {"train": pictures(), "val": pictures(16)}
    return fit(run, net=new_net() if net is None else net, **{**data, **others})


def bits(result: Result) -> list[bytes]:
    return [array.tobytes() for array in weights.copy_of(result.net).values()]


def curve(result: Result) -> list[Any]:
    return [(each["kind"], each["step"], each.get("loss"), each.get("val_loss")) for each in result.history]


def test_it_learns_and_returns_what_came(tmp_path: Path) -> None:
    net = new_net()
    result = trained(tmp_path / "run", net, epochs=4, loss=mx.gluon.loss.SoftmaxCrossEntropyLoss())
    assert result.net is net
    output = net(mx.nd.zeros((3, 3, 16, 16)))
    assert output.shape == (3, 2)
    assert [each["step"] for each in result.history if each["kind"] == "train"] == list(range(1, 9))
    assert result.best in result.history and result.best["val_accuracy"] == 1.0
    assert (result.checkpoint / "manifest.json").is_file()
    assert result.checkpoint.parent.parent == tmp_path / "run" == Path(result.run.output.out)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [each for each in records if each["kind"] in ("train", "eval")] == result.history
    assert {"classes", "worst"} < {each["kind"] for each in records}
    assert (
        "<object of type mxnet.gluon.loss.SoftmaxCrossEntropyLoss>"
        in (tmp_path / "run/config.yaml").read_text()
    )


def test_a_stop_by_a_hook_and_the_same_call_again_are_the_whole_run(tmp_path: Path, caplog: Any) -> None:
    whole = trained(tmp_path / "whole")

    def stop_after_one(record: dict[str, Any]) -> None:
        if record["step"] == 1:
            raise StopTraining

    part = trained(tmp_path / "parts", on_step=stop_after_one)
    assert [each["step"] for each in part.history] == [1]
    assert part.stopped == "stopped by a hook, after a checkpoint" and whole.stopped is None
    assert repr(part) == f"<Result {tmp_path / 'parts'}: 1 epoch, stopped by a hook>"
    assert whole.best is not None
    score = f"val_accuracy {whole.best['val_accuracy']:.4g}"
    assert repr(whole) == f"<Result {tmp_path / 'whole'}: 2 epochs, {score}, done>"
    rest = trained(tmp_path / "parts")
    assert curve(rest) == curve(whole) and bits(rest) == bits(whole)
    assert not [record for record in caplog.records if "had ended before" in record.message]
    done = trained(tmp_path / "parts")
    assert "this run had ended before, and nothing was trained" in caplog.records[-1].message
    assert rest.stopped is None and done.stopped is None
    assert (rest.ended, done.ended) == ("done", "nothing left to do")
    assert curve(done) == curve(whole) and bits(done) == bits(whole) and done.best == rest.best


def test_hooks_look_and_move_no_bit(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    def look(record: dict[str, Any]) -> bool:
        seen.append(dict(record))
        record.clear()
        mx.random.seed(7)
        mx.nd.random.uniform(shape=(3,)).wait_to_read()
        return True  # asks for nothing

    watched = trained(tmp_path / "watched", on_step=look, on_evaluation=look)
    assert seen == watched.history and len(seen) == 6
    alone = trained(tmp_path / "alone")
    assert curve(alone) == curve(watched) and bits(alone) == bits(watched)
    record = {"kind": "train", "step": 1}
    Hooks({"on_step": look}, None, []).record(record)
    assert record == {"kind": "train", "step": 1}


def test_hooks_of_the_begin_and_the_end_come_once_whatever_ends_it(tmp_path: Path) -> None:
    seen: list[tuple[str, Any, int]] = []

    def of(name: str) -> Any:
        return lambda record: seen.append((name, record.get("event", record["kind"]), record["step"]))

    def stop(record: dict[str, Any]) -> None:
        raise StopTraining

    def break_down(record: dict[str, Any]) -> None:
        raise ZeroDivisionError

    begin_and_end = {"on_begin": of("begin"), "on_end": of("end")}
    trained(tmp_path, on_step=stop, **begin_and_end)
    assert seen == [("begin", "start", 0), ("end", "stop", 1)]
    seen.clear()
    with pytest.raises(ZeroDivisionError):
        trained(tmp_path, on_step=break_down, **begin_and_end)
    assert seen == [("begin", "restart", 1), ("end", "stop", 2)]
    seen.clear()
    hooks = {**begin_and_end, "on_step": of("step"), "on_evaluation": of("evaluation")}
    trained(tmp_path, **hooks)
    names = [name for name, *_ in seen]
    assert names[0] == "begin" and names[-1] == "end" and set(names[1:-1]) == {"step", "evaluation"}
    assert seen[-1][1] == "end" and (tmp_path / "checkpoints" / f"step-{seen[-1][2]:08d}").is_dir()
    seen.clear()
    trained(tmp_path, **hooks)  # nothing is left to do
    assert not seen


class Watch:
    """All methods that hooks may have, which note what they get."""

    def __init__(self, stop_at: str = "") -> None:
        self.seen: list[tuple[str, Moment]] = []
        self._stop_at = stop_at

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(name)
        return lambda now: self._note(name, now)

    def _note(self, name: str, now: Moment) -> None:
        self.seen.append((name, now))
        if name == self._stop_at:
            raise StopTraining


def test_an_object_of_hooks_gets_the_moments_of_a_run(tmp_path: Path) -> None:
    watch, net = Watch(), new_net()
    result = trained(tmp_path, net, hooks=watch)
    names = [name for name, _ in watch.seen]
    assert names[0] == "begin" and names[-1] == "end" and set(names) == set(METHODS)
    assert all(now.net is net for _, now in watch.seen)
    records = {
        kind: [record for record in result.history if record["kind"] == kind] for kind in ("train", "eval")
    }
    steps = [now for name, now in watch.seen if name == "step"]
    assert [(now.step, now.epoch, now.loss) for now in steps] == [
        (each["step"], each["epoch"], each["loss"]) for each in records["train"]
    ]
    assert all(now.metrics["lr"] > 0 and "loss" not in now.metrics for now in steps)
    evaluations = [now for name, now in watch.seen if name == "evaluation"]
    assert [(now.loss, now.metrics["val_accuracy"]) for now in evaluations] == [
        (each["val_loss"], each["val_accuracy"]) for each in records["eval"]
    ]
    saved = [now for name, now in watch.seen if name == "checkpoint"]
    assert [now.step for now in saved] == [2, 2, 4, 4]  # before an evaluation, and after it with the score
    folder = tmp_path / "checkpoints"
    assert [now.checkpoint for now in saved] == [folder / f"step-{now.step:08d}" for now in saved]
    begin, end = watch.seen[0][1], watch.seen[-1][1]
    assert (begin.step, begin.epoch, begin.checkpoint, begin.reason) == (0, 0, None, "")
    assert (end.step, end.epoch, end.checkpoint, end.reason) == (4, 2, saved[-1].checkpoint, "done")
    again = Watch()
    assert trained(tmp_path, hooks=again).ended == "nothing left to do" and not again.seen


@pytest.mark.parametrize("name", METHODS)
def test_any_method_of_hooks_ends_the_run_or_breaks_it(name: str, tmp_path: Path) -> None:
    watch = Watch(stop_at=name)
    stopped = trained(tmp_path / "stopped", hooks=watch)
    assert stopped.ended == ("done" if name == "end" else "stopped by a hook")
    assert watch.seen[-1][0] == "end" and watch.seen[-1][1].reason == stopped.ended

    class Broken:
        pass

    setattr(Broken, name, lambda self, now: 1 / 0)
    with pytest.raises(ZeroDivisionError) as raised:
        trained(tmp_path / "broken", hooks=Broken())
    assert user_message(raised.value) == f"hooks.{name}: ZeroDivisionError: division by zero"


def test_an_error_is_the_reason_of_the_end(tmp_path: Path) -> None:
    watch = Watch()
    with pytest.raises(ZeroDivisionError):
        trained(tmp_path / "later", hooks=watch, on_evaluation=lambda record: 1 / 0)
    assert "division by zero" in watch.seen[-1][1].reason
    watch = Watch()
    watch.begin = lambda now: 1 / 0  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError):
        trained(tmp_path / "at_once", hooks=watch)
    assert [(name, now.reason) for name, now in watch.seen] == [("end", "failed in its first step")]


def test_an_early_stop_is_told(tmp_path: Path) -> None:
    result = trained(tmp_path, epochs=5, early_stop=1, val=(np.zeros((4, 16, 16, 3), np.uint8), np.zeros(4)))
    assert result.ended == "early stop" and repr(result).endswith("early stop>")


def test_what_a_hook_of_the_begin_or_the_end_raises_comes_out(tmp_path: Path) -> None:
    for name in ("on_begin", "on_end"):
        with pytest.raises(ZeroDivisionError) as raised:
            trained(tmp_path / name, **{name: lambda record: 1 / 0})
        assert user_message(raised.value) == f"{name}: ZeroDivisionError: division by zero"

    def stop(record: dict[str, Any]) -> None:
        raise StopTraining

    assert len(trained(tmp_path / "stopped", on_begin=stop).history) == 1
    assert trained(tmp_path / "stopped", on_end=stop).history  # which has ended already


def test_an_error_in_a_hook_is_named_and_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        trained(tmp_path, on_evaluation=lambda record: 1 / 0)
    assert user_message(raised.value) == "on_evaluation: ZeroDivisionError: division by zero"
    assert trained(tmp_path).history  # the folder is free again


def test_a_net_keeps_what_it_brings(tmp_path: Path) -> None:
    plain, brought = new_net(), new_net()
    brought.initialize(mx.init.Constant(0.25))  # the shapes are not known yet
    for net, is_constant in ((plain, False), (brought, True)):
        trained(tmp_path / str(is_constant), net, lr=1e-30, epochs=1)
        assert (np.ptp(net[0].weight.data().asnumpy()) < 1e-6) == is_constant
    before = brought[0].weight.data().asnumpy()
    brought[0].weight.set_data(mx.nd.ones(before.shape) * 0.5)
    trained(tmp_path / "values", brought, lr=1e-30, epochs=1, devices="cpu:0,1")
    assert np.allclose(brought[0].weight.data(mx.cpu(1)).asnumpy(), 0.5)


@pytest.mark.parametrize("flags", [{}, {"amp": "bf16"}])
def test_the_callers_classes_and_net_get_no_attributes(tmp_path: Path, flags: dict[str, Any]) -> None:
    if flags and kernels.bf16_problem() is not None:
        pytest.skip("this CPU has no bfloat16")
    net, block = new_net(), mx.gluon.HybridBlock
    own, of_class = set(vars(net)), dict(vars(block))
    trained(tmp_path, net, epochs=1, **flags)
    assert set(vars(net)) == own and dict(vars(block)) == of_class


def test_a_net_that_is_computed_in_segments_is_the_callers_still(tmp_path: Path) -> None:
    net = new_net()
    run = Run.of(**{**FLAGS, "out": tmp_path, "remat": True})
    assert fit(run, train=pictures(), net=net).net is net
    assert net(mx.nd.zeros((2, 3, 16, 16))).shape == (2, 2)
    with pytest.raises(UsageError, match=r"fit: takes a run first, as in fit\(Run.of"):
        fit(str(tmp_path), net=net)  # type: ignore[arg-type]


def test_an_optimizer_brings_its_numbers_and_is_left_as_it_is(tmp_path: Path) -> None:
    optimizer = mx.optimizer.Adam(learning_rate=0.02, wd=0.001)
    results = [
        trained(tmp_path / name, optimizer=given, lr=lr, schedule="constant")
        for name, given, lr in (("object", optimizer, 0.1), ("again", optimizer, 0.1))
    ]
    assert bits(results[0]) == bits(results[1]) and optimizer.num_update == 0
    assert results[0].run.optim.lr == 0.02 and results[0].run.optim.weight_decay == 0.001
    named = fit(
        Run.of(**{**FLAGS, "lr": 0.02, "weight_decay": 0.001, "out": tmp_path / "named"}),
        **{
            "train": pictures(),
            "val": pictures(16),
            "net": new_net(),
            "optimizer": "adam",
            "schedule": "constant",
        },
    )
    assert bits(named) == bits(results[0])
    with pytest.raises(UsageError, match=r"lr=0.3: the optimizer has 0.02"):
        trained(tmp_path / "refused", optimizer=optimizer, lr=0.3)


def test_rates_come_from_a_function_or_a_scheduler(tmp_path: Path) -> None:
    def falling(progress: float) -> float:
        return 1 - progress / 2

    rates = [each["lr"] for each in trained(tmp_path / "function", schedule=falling).history if "lr" in each]
    assert rates == pytest.approx([0.05 * falling(step / 4) for step in range(4)])
    scheduler = mx.lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=0.03)
    expected = [
        mx.lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=0.03)(update) for update in (1, 2, 3, 4)
    ]
    rates = [
        each["lr"] for each in trained(tmp_path / "scheduler", schedule=scheduler).history if "lr" in each
    ]
    assert rates == expected and len(set(rates)) == 2 and scheduler.base_lr == 0.03


def test_the_callers_log_signals_and_generators_are_as_before(tmp_path: Path, caplog: Any) -> None:
    loggers = [logging.getLogger(name) for name in ("", "mxtrain")]

    def found() -> list[Any]:
        return [
            *((list(each.handlers), each.level, each.propagate) for each in loggers),
            *(signal.getsignal(number) for number in signals.STOPS),
            np.random.get_state()[1].tolist(),
            (dict(os.environ), list(sys.path), threading.active_count(), os.getcwd()),
            mx.gluon.HybridBlock._get_graph,
        ]

    trained(tmp_path / "first")  # mxnet is loaded
    drawn = []
    for out, seed in (("run", 5), ("same", 5), ("other", 6)):
        with pytest.raises(ZeroDivisionError):
            trained(tmp_path / f"{out} fails", on_step=lambda record: 1 / 0)
        mx.random.seed(seed)
        before = found()
        with caplog.at_level(logging.INFO, "mxtrain"):
            trained(tmp_path / out, on_step=lambda record: mx.nd.random.uniform().wait_to_read())
        assert found() == before
        drawn.append(mx.nd.random.uniform(shape=(4,)).asnumpy().tolist())
    assert drawn[0] == drawn[1] != drawn[2]  # the caller's own numbers follow from the caller's seed
    said = [record.message for record in caplog.records]
    assert any("global batch 16" in line for line in said)
    assert not [record for record in caplog.records if record.levelno < logging.INFO]
    assert "global batch 16" in (tmp_path / "run" / "logs" / "fit.log").read_text()


def test_it_works_in_a_thread_and_one_at_a_time(tmp_path: Path) -> None:
    alone = trained(tmp_path / "alone")
    found: list[Any] = []

    def second(record: dict[str, Any]) -> None:
        if record["step"] == 1:
            with pytest.raises(UsageError, match="another run is at work in this process"):
                trained(tmp_path / "second")

    def work() -> None:
        found.append(trained(tmp_path / "thread", on_step=second))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert bits(found[0]) == bits(alone)


def test_ctrl_c_stops_after_a_checkpoint_and_at_once_if_repeated(tmp_path: Path) -> None:
    def interrupt(times: int) -> Any:
        def hook(record: dict[str, Any]) -> None:
            if record["step"] == 2:
                for _ in range(times):
                    signal.raise_signal(signal.SIGINT)

        return hook

    with pytest.raises(KeyboardInterrupt, match="goes on from the newest checkpoint"):
        trained(tmp_path / "once", on_step=interrupt(1))
    assert (tmp_path / "once" / "checkpoints" / "step-00000002").is_dir()
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "twice", on_step=interrupt(2))
    assert not list((tmp_path / "twice").glob("checkpoints/step-*"))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert bits(trained(tmp_path / "once")) == bits(trained(tmp_path / "whole"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"train": (np.zeros((3, 8, 8, 3), np.uint8), [0, 1])}, r"different lengths \(0: 3, 1: 2\)"),
        ({"train": 7}, "--train <object of type int>: "),
        ({"net": 7}, "--model <object of type int>: is not callable"),
        ({"loss": 7}, "--loss <object of type int>: is not callable"),
        (
            {"optimizer": mx.nd.ones(1)},
            "--optimizer <object of type mxnet.ndarray.ndarray.NDArray>: is not callable",
        ),
        ({"task": 7}, "--task <object of type int>: is no"),
        ({"train": None}, "--train is missing"),
        ({"on_step": 7}, "on_step: is a int; give a function"),
        (
            {"hooks": print},
            "hooks: a builtin_function_or_method has no method called begin, step, evaluation",
        ),
        ({"hooks": Watch}, "hooks: Watch is a class; give an object of it"),
        ({"hooks": Moment(0, 0, None)}, "hooks: its step is a int; give a method that takes a Moment"),
    ],
)
def test_what_cannot_be_is_refused_in_words(given: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        trained(tmp_path, **given)


def test_a_result_and_its_folder_are_evaluated(tmp_path: Path) -> None:
    result = trained(tmp_path / "run", epochs=3, loss=mx.gluon.loss.SoftmaxCrossEntropyLoss())
    before = bits(result)
    scores = evaluate(result)
    assert {name: result.best[name] for name in scores} == scores
    older = min((tmp_path / "run" / "checkpoints").glob("step-*"))
    assert evaluate(result, checkpoint=str(older)) != scores and bits(result) == before
    other = new_net()
    named = {"val": pictures(16), "loss": "cross_entropy", "net": other}
    assert evaluate(tmp_path / "run", **named) == scores
    assert other[0].weight.data().shape == (4, 3, 3, 3)  # it keeps the weights, as it had none
    with pytest.raises(UsageError, match=r"--model <object of type .*: was an object .* as net=..., to"):
        evaluate(tmp_path / "run", val=pictures(16))
    with pytest.raises(UsageError, match=r"--val <object of type tuple>: was an object .* as val=..., to"):
        evaluate(tmp_path / "run", net=new_net())


def test_pictures_are_predicted_whatever_company_they_come_in(tmp_path: Path) -> None:
    result = trained(tmp_path / "run", epochs=4)
    before = bits(result)
    shown, labels = pictures(20)
    Image.fromarray(shown[1]).save(tmp_path / "bright.png")
    together = predict(result, shown)
    assert [int(each["classes"][0]["class"]) for each in together] == labels.tolist()
    assert together[1] == predict(result, tmp_path / "bright.png")[0]
    alone = [predict(result, [each])[0] for each in shown[:5]]
    for one, other in zip(together, alone):
        assert one["classes"][0] == pytest.approx(other["classes"][0], rel=1e-5)
    assert predict(tmp_path / "run", iter(shown[:3]), net=new_net(), top=1) == [
        {"classes": each["classes"][:1]} for each in together[:3]
    ]
    assert bits(result) == before
    with pytest.raises(DataError, match=r"nothing.png: no such file"):
        predict(result, ["nothing.png"])
    with pytest.raises(UsageError, match="give uint8"):
        predict(result, [np.zeros((4, 4, 3), np.float32)])


@amp.needs_bf16
def test_runs_one_after_the_other_leave_nothing_behind(tmp_path: Path) -> None:
    alone = trained(tmp_path / "off")
    narrow = trained(tmp_path / "bf16", amp="bf16", amp_table=amp.ALL_NARROW)
    again = trained(tmp_path / "off again")
    assert bits(again) == bits(alone) != bits(narrow)
    assert curve(again) == curve(alone)
    evaluate(narrow)
    assert bits(trained(tmp_path / "after bf16 is evaluated")) == bits(alone)


def training_settings(net: Any) -> list[Any]:
    parameters = net.collect_params().values()
    return [(each.grad_req, each.lr_mult, each.wd_mult) for each in parameters] + [dict(net[1]._kwargs)]


def test_a_net_trains_by_no_flag_of_an_earlier_run(tmp_path: Path) -> None:
    """As where its head is trained first, and then all of it."""
    net, other = new_net(), new_net()
    other[5].weight.grad_req = net[5].weight.grad_req = "add"
    before = training_settings(net)
    trained(tmp_path / "head", net, freeze="0.*,1.*", layer_decay=0.5, epochs=1)
    assert training_settings(net) == before
    mean = net[1].running_mean.data().asnumpy()
    with mx.autograd.record():
        output = net(mx.nd.ones((2, 3, 16, 16)))
    output.backward()
    mx.nd.waitall()  # reading a running mean does not wait for the backward pass of a static graph
    assert not np.array_equal(net[1].running_mean.data().asnumpy(), mean)  # nor by the graph compiled for it
    for mine, others in zip(net.collect_params().values(), other.collect_params().values()):
        others.initialize()
        others.shape = mine.shape
        others.set_data(mine.data())
    assert bits(trained(tmp_path / "all", net)) == bits(trained(tmp_path / "alone", other))
    evaluate(tmp_path / "all", val=pictures(16), net=net)
    assert training_settings(net) == before


def test_how_mxnet_compiles_and_casts_is_put_back(tmp_path: Path) -> None:
    modules = precision._modules_of_operators()
    patched = *modules, mx.gluon.HybridBlock, mx.gluon.nn.PReLU

    def attributes() -> list[dict[str, Any]]:
        return [dict(vars(each)) for each in patched]

    before = attributes()
    for _ in range(2):
        with pytest.raises(KeyError), build_net.compiling("fp16"):
            once = attributes()
            with build_net.compiling("off"):  # as the nets of an ensemble are inside one another
                assert attributes()[: len(modules)] == once[: len(modules)]
            assert attributes() == once
            raise KeyError
        assert sum(now != then for now, then in zip(once, before)) > 5
        assert attributes() == before
    trained(tmp_path / "run", epochs=1)
    assert attributes() == before


def test_a_net_that_nothing_would_compile_for_speed_is_not_built() -> None:
    task = Classification.numbered(Run.of(train="none", model="small_cnn"), 3)
    with pytest.raises(RuntimeError, match=r"inside `build_net\.compiling`"):
        build_net.build_to_train(task, [mx.cpu()])


def test_memory_does_not_grow_run_by_run(tmp_path: Path) -> None:
    nets = [weakref.ref(trained(tmp_path / str(number), epochs=1).net) for number in range(3)]
    trained(tmp_path / "last", epochs=1)
    assert [net() for net in nets] == [None] * 3
    threads = threading.active_count(), len(os.listdir("/proc/self/fd"))
    trained(tmp_path / "one more", epochs=1)
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == threads


def test_other_threads_than_mxnet_has_are_refused(tmp_path: Path) -> None:
    has = runtime.loaded_threads()
    assert has
    run = Run.of(**{**FLAGS, "threads": has + 1, "out": tmp_path})
    with pytest.raises(
        UsageError, match=rf"threads={has + 1}: mxnet computes with {has} since it was imported"
    ):
        fit(run, train=pictures(), net=new_net())


def test_arrays_that_are_no_pictures_are_learnt_as_arrays(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((256, 4)).astype(np.float32)
    product = (x[:, 0] * x[:, 1] > 0).astype(np.int64)  # which no linear model tells apart
    flags = {"epochs": 6, "batch_size": 8, "lr": 0.05, "log": "none", "out": tmp_path / "own"}
    own = mx.gluon.nn.HybridSequential()
    own.add(mx.gluon.nn.Dense(32, activation="relu"), mx.gluon.nn.Dense(2))
    result = fit(Run.of(**flags), train=(x, product), val=(x, product), net=own)
    assert result.run.model.task == "arrays" and result.best["val_accuracy"] > 0.9
    assert evaluate(result)["val_accuracy"] == result.best["val_accuracy"]
    samples = [(row.tolist(), float(row.sum())) for row in x]  # numbers, and a net by default
    for out, given in (("list", samples), ("named", {"data": x, "label": x.sum(axis=1)})):
        result = fit(Run.of(**{**flags, "epochs": 1, "batch_size": 64, "out": tmp_path / out}), train=given)
        assert result.run.model.model == "mlp" and "mae" in result.history[-1]


def test_numbers_far_from_zero_are_learnt_and_judged_as_they_are(tmp_path: Path) -> None:
    """Targets such as times: float32 has steps of 128 there, and made one number of them all."""
    x = np.arange(64.0)[:, None] % 7
    data = x, 1.7e9 + x
    options = {"batch_size": 16, "optimizer": "adam", "lr": 0.05, "epochs": 10}
    result = fit(Run.of(**options, log="none", out=tmp_path / "run"), train=data, val=data)
    first, best = result.history[0], result.best
    assert first["mae"] > 0.5 and best["val_rmse"] < 0.5 and best["val_r2"] > 0.9
    assert evaluate(result)["val_rmse"] == best["val_rmse"]
    assert predict(result, [[4.0]])[0]["target0"] == pytest.approx(1.7e9 + 4, abs=1)


def test_what_is_said_stays_where_it_equals_a_default(tmp_path: Path) -> None:
    """The library takes numbers for the task arrays, whose loss would be that of a regression."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 4)).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(np.float32)  # floats, so that nothing else says that they are classes
    options = {"out": str(tmp_path / "run"), "batch_size": 16, "epochs": 1, "log": "none"}
    result = fit(Run.of(loss="cross_entropy", **options), train=(x, y), val=(x, y))
    assert (result.run.model.task, result.run.model.loss) == ("arrays", "cross_entropy")
    assert "val_accuracy" in result.best
    for flags, words in (
        ({"augment": "resized_crop+flip"}, "--augment goes with"),
        ({"model": "resnet18_v1b"}, "--model resnet18_v1b goes with"),
    ):
        with pytest.raises(UsageError, match=words):
            fit(Run.of(**{**options, "resume": "never"}, **flags), train=(x, y))


def test_tables_of_pandas_are_arrays(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(np.random.default_rng(0).standard_normal((32, 3)), columns=["a", "b", "c"])
    run = Run.of(epochs=1, batch_size=8, lr=0.01, log="none", out=tmp_path / "run")
    with pytest.raises(UsageError, match="what is to be predicted"):
        fit(run, train=table)
    with pytest.raises(UsageError, match=r"DataFrame alone; give \(x, y\)"):
        fit(Run.of(task="classification", num_classes=2, out=tmp_path / "pictures"), train=table)
    result = fit(run, train=(table[["a", "b"]], table["c"]))
    assert "mae" in result.history[-1]
    with pytest.raises(UsageError, match="inputs is a NoneType; give a list"):
        predict(result, None)


def share_of_bright(predicted: Any, targets: Any) -> float:
    """Say how many are taken for bright; `predicted` are the answers of the net."""
    assert len(predicted) == len(targets)
    return float((predicted.argmax(axis=1) == 1).mean())


class Count:
    """A metric with a state."""

    width = 1

    def state(self, output: Any, arrays: Any) -> Any:
        return [len(arrays["label"])]

    def finish(self, states: Any) -> dict[str, float]:
        return {"count": float(np.sum(states))}


def test_a_generator_function_is_learnt_as_arrays(tmp_path: Path) -> None:
    def ring(number: int) -> Any:
        angle = np.random.default_rng(number).uniform(0, 2 * np.pi)
        return 100 + (1 + number % 2) * np.array([np.cos(angle), np.sin(angle)]), number % 2

    def endless() -> Any:
        return map(ring, itertools.count())

    def learnt(out: Path, train: Any, **flags: Any) -> Result:
        net = mx.gluon.nn.HybridSequential()
        net.add(mx.gluon.nn.Dense(16, activation="relu"), mx.gluon.nn.Dense(2))
        flags.update(
            epoch_steps=30, batch_size=16, optimizer="adam", lr=0.02, schedule="constant", log="none"
        )
        val = [ring(10**6 + number) for number in range(40)]
        return fit(Run.of(out=tmp_path / out, **flags), train=train, net=net, val=val)

    whole = learnt(Path("a"), endless, epochs=2)
    assert whole.best["val_accuracy"] > 0.95 and whole.run.model.task == "arrays"
    assert learnt(Path("b"), endless(), epochs=1).best["val_loss"] == whole.history[30]["val_loss"]
    assert learnt(Path("b"), endless, epochs=2).best["val_loss"] == whole.best["val_loss"]


def test_metrics_are_names_functions_and_objects(tmp_path: Path) -> None:
    result = trained(
        tmp_path / "run", metric=["macro_f1", share_of_bright, Count(), lambda predicted, targets: 0.5]
    )
    assert result.best["val_share_of_bright"] in (0.0, 0.5, 1.0) and result.best["val_count"] == 16
    assert "val_macro_f1" in result.best and result.best["val_<lambda>"] == 0.5
    scores = evaluate(result)
    assert {name: result.best[name] for name in scores} == scores
    named = {"net": new_net(), "val": pictures(16)}
    with pytest.raises(
        UsageError, match=r"--metric <object of type .*Count>: was an object .* as metric=..., to"
    ):
        evaluate(tmp_path / "run", **named)
    assert evaluate(tmp_path / "run", **named, metric=Count())["val_count"] == 16
    with pytest.raises(UsageError, match=r"--metric <object of type int>: has no state and finish"):
        trained(tmp_path / "other", metric=7)
