"""Nets of GluonCV's, of net.export and of Module become run folders: all fits, and outputs are those of the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.checkpoint import directory
from mxtrain.convert import convert, target_net
from mxtrain.convert.options import ConvertOptions
from mxtrain.core.errors import DataError, UsageError
from mxtrain.models.parameters import weights
from mxtrain.predict import predict
from mxtrain.runtime import mx

MODEL, SIDE = "mobilenet0.25", 32


@pytest.fixture(scope="module")
def net() -> Any:
    """A small net of GluonCV's, of seven classes."""
    built = target_net.built(ConvertOptions(image_size=SIDE).run(MODEL), 7)
    built.collect_params().initialize(mx.init.Xavier(), force_reinit=True)
    for name, parameter in weights.named_parameters(built).items():
        if name.endswith("running_mean"):  # a graph of other arrays would give other outputs
            parameter.set_data(mx.nd.random.normal(0, 0.1, parameter.shape))
    return built


def of_checkpoint(run: Path) -> dict[str, Any]:
    found = directory.newest(run / "checkpoints")
    assert found is not None and found.state["config"]["model"] == MODEL
    arrays: dict[str, Any] = mx.nd.load(str(found.path / directory.WEIGHTS))
    return arrays


def assert_same(run: Path, net: Any) -> None:
    ours = of_checkpoint(run)
    for name, array in target_net.values_of(net).items():
        assert (ours.pop(name).asnumpy() == array).all(), name
    assert not ours


def test_published_files_say_their_net(net: Any, tmp_path: Path) -> None:
    net.save_parameters(str(tmp_path / f"{MODEL}-0ecdba34.params"))
    (tmp_path / "names.txt").write_text("\n".join("abcdefg"))
    done = convert(
        tmp_path / f"{MODEL}-0ecdba34.params",
        tmp_path / "run",
        image_size=SIDE,
        classes=tmp_path / "names.txt",
    )
    assert (done["model"], done["num_classes"]) == (MODEL, 7)
    assert_same(tmp_path / "run", net)
    (told,) = predict(tmp_path / "run", [np.full((SIDE, SIDE, 3), 90, np.uint8)])
    assert sorted(each["class"] for each in told["classes"]) == list("abcdefg")


@pytest.fixture(scope="module")
def exported(net: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what net.export writes: net-symbol.json and net-0003.params."""
    folder = tmp_path_factory.mktemp("exported")
    net.hybridize()
    net(mx.nd.zeros((1, 3, SIDE, SIDE)))
    net.export(str(folder / "net"), epoch=3)
    return folder


def test_an_export_is_compared_with_its_graph(net: Any, exported: Path, tmp_path: Path) -> None:
    done = convert(exported / "net-symbol.json", tmp_path / "run", model=MODEL, image_size=SIDE)
    assert_same(tmp_path / "run", net)
    (note,) = done["notes"]
    assert "outputs are those of" in note and "net-symbol.json" in note
    with pytest.raises(UsageError, match=r"net-0003\.params: its name says no net; give --model"):
        convert(exported / "net-0003.params", tmp_path / "other", image_size=SIDE)


def test_a_checkpoint_of_module_is_compared_without_its_loss(
    net: Any, exported: Path, tmp_path: Path
) -> None:
    symbol = mx.sym.SoftmaxOutput(mx.sym.load(str(exported / "net-symbol.json")), name="softmax")
    module = mx.mod.Module(symbol, label_names=["softmax_label"])
    module.bind([("data", (1, 3, SIDE, SIDE))], [("softmax_label", (1,))])
    arrays = mx.nd.load(str(exported / "net-0003.params"))
    module.set_params(
        *(
            {name[4:]: array for name, array in arrays.items() if name.startswith(kind)}
            for kind in ("arg:", "aux:")
        )
    )
    module.save_checkpoint(str(tmp_path / "module"), 10)
    files = [tmp_path / "module-symbol.json", tmp_path / "module-0010.params"]
    done = convert(files, tmp_path / "run", model=MODEL, image_size=SIDE)
    assert "outputs are those of" in done["notes"][0]
    assert_same(tmp_path / "run", net)


def test_a_graph_of_another_net_is_refused(exported: Path, tmp_path: Path) -> None:
    text = (exported / "net-symbol.json").read_text()
    assert '"stride": "(2, 2)"' in text
    (tmp_path / "net-symbol.json").write_text(text.replace('"act_type": "relu"', '"act_type": "sigmoid"'))
    files = [tmp_path / "net-symbol.json", exported / "net-0003.params"]
    with pytest.raises(DataError, match="its graph gives other outputs than the net"):
        convert(files, tmp_path / "run", model=MODEL, image_size=SIDE)
    assert not (tmp_path / "run").exists()


def test_what_does_not_fit_is_named(net: Any, tmp_path: Path) -> None:
    arrays = {name: mx.nd.array(array) for name, array in target_net.values_of(net).items()}

    def refusal(changed: dict[str, Any], model: str = MODEL) -> str:
        mx.nd.save(str(tmp_path / "a.params"), changed)
        with pytest.raises(DataError) as refused:
            convert(tmp_path / "a.params", tmp_path / "run", model=model, image_size=SIDE)
        assert "a.params" in str(refused.value) and not (tmp_path / "run").exists()
        return str(refused.value)

    first = "features.0.weight"
    kept = {name: array for name, array in arrays.items() if name != first}
    assert f"there is no '{first}'" in refusal({**kept, "features.0.weigth": arrays[first]})
    assert "did you mean 'features.0.weigth'" in refusal({**kept, "features.0.weigth": arrays[first]})
    assert "no parameter for 'more' (2,)" in refusal({**arrays, "more": mx.nd.ones(2)})
    assert f"its '{first}' is (8, 3, 5, 5), the net's (8, 3, 3, 3)" in refusal(
        {**arrays, first: mx.nd.ones((8, 3, 5, 5))}
    )
    assert "holds numbers that are not finite" in refusal({**arrays, first: arrays[first] * float("nan")})
    assert "does not fit mobilenet0.5" in refusal(arrays, "mobilenet0.5")
    whole = (tmp_path / "a.params").read_bytes()
    (tmp_path / "a.params").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"a\.params: not a whole file"):
        convert(tmp_path / "a.params", tmp_path / "run", model=MODEL, image_size=SIDE)
    with pytest.raises(UsageError, match=r"--model mobilenet0\.26: unknown; did you mean"):
        convert(tmp_path / "a.params", tmp_path / "run", model="mobilenet0.26", image_size=SIDE)
