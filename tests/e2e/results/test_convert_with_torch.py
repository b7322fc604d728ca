"""Nets from torch and back, with torch: it reads what is written, strictly, and both sides give the same outputs.

Torch is in an environment of its own, that of `python -m benchmarks.converting --setup` where it is there. That keys,
shapes and values are right is held without torch in `tests/engine/convert/test_convert_torch.py`.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from benchmarks.converting import nets
from benchmarks.harness import environments
from tests.support.commands import ROOT, Command

pytestmark = pytest.mark.slow  # minutes: an environment with torch, and nets on both sides


@pytest.fixture(scope="session")
def torch_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has torch, torchvision and timm."""
    name = nets.ENVIRONMENT
    for folder in (ROOT / environments.FOLDER, tmp_path_factory.getbasetemp().parent / "torch-environment"):
        found = environments.interpreter(folder, name)
        if found is not None:
            return found
    try:
        environments.set_up(folder, [name])
    except subprocess.SubprocessError as error:
        pytest.skip(f"torch cannot be installed: {error}")
    found = environments.interpreter(folder, name)
    assert found is not None
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "net",
    [
        "torchvision/resnet18",
        "timm/resnet50d",
        "timm/mobilenetv3_small_100",
        "torchvision/mobilenet_v3_small",
    ],
)
def test_outputs_are_torchs_both_ways(net: str, torch_python: Path, tmp_path: Path) -> None:
    found = nets.measure(net, torch_python, tmp_path)
    assert 0 < found["in"] <= 1e-5 and 0 < found["out"] <= 1e-5
    assert found["same_classes"]


@pytest.mark.timeout(900)
def test_a_net_trained_on_digits_gives_the_same_in_torch(
    digits: Path, torch_python: Path, tmp_path: Path, command: Command
) -> None:
    flags = ["--train", digits / "train.rec", "--val", digits / "val.rec", "--model", "resnet18_v1b"]
    flags += [
        "--image-size",
        32,
        "--augment",
        "none",
        "--batch-size",
        64,
        "--lr",
        0.05,
        "--epochs",
        4,
        "--log",
        "none",
    ]
    done = command("mxtrain.fit", *flags, "--out", tmp_path / "run", timeout=600)
    assert done.returncode == 0, done.stderr
    asked = ["--to", "torch", "--torch", torch_python, "--json"]
    done = command("mxtrain.convert", tmp_path / "run", *asked, tmp_path / "net.safetensors", timeout=300)
    assert done.returncode == 0, done.stderr
    assert 0 < json.loads(done.stdout)["difference"] <= 1e-5
    names = sorted(path.name for path in (digits / "images").iterdir())
    (tmp_path / "names.txt").write_text("\n".join(names))
    back = ["--classes", tmp_path / "names.txt", "--image-size", 32]
    done = command("mxtrain.convert", tmp_path / "net.safetensors", tmp_path / "back", *back, timeout=300)
    assert done.returncode == 0, done.stderr
    scores = [
        json.loads(command("mxtrain.evaluate", run, "--val", digits / "val.rec", "--json").stdout)
        for run in (tmp_path / "run", tmp_path / "back")
    ]
    assert {**scores[0], "checkpoints": 0} == {**scores[1], "checkpoints": 0}
    assert scores[0]["val_accuracy"] > 0.5


@pytest.mark.timeout(300)
def test_other_outputs_are_refused_and_nothing_is_written(
    torch_python: Path, tmp_path: Path, command: Command
) -> None:
    nets.make("torchvision/resnet18", torch_python, tmp_path / "a.safetensors")
    asked = ["--torch", torch_python, "--names", "timm", "--model", "resnet34_v1b"]
    done = command("mxtrain.convert", tmp_path / "a.safetensors", tmp_path / "out", *asked)
    assert done.returncode == 3 and "there is no 'layer1.2.conv1.weight'" in done.stderr
    done = command("mxtrain.convert", tmp_path / "a.safetensors", tmp_path / "out", "--torch", "/bin/false")
    assert done.returncode == 2 and "--torch /bin/false" in done.stderr
    assert not (tmp_path / "out").exists()


CHECKPOINT = """
import sys
sys.path[:0] = sys.argv[2:]
import seeded, torch, torch_outputs
from pathlib import Path
from safetensors.torch import save_file
net = torch_outputs.net_of("torchvision", "mobilenet_v3_small", 10, 3).state_dict()
net = {key: torch.from_numpy(seeded.weight(key, tuple(array.shape))) for key, array in net.items()}
first = next(iter(net))
files = {
    "wrapped": {"module." + key: array for key, array in net.items()},
    "grey": {**net, first: net[first][:, :1].contiguous()},
    "float16": {key: array.half() if array.is_floating_point() else array for key, array in net.items()},
    "bfloat16": {key: array.bfloat16() if array.is_floating_point() else array for key, array in net.items()},
}
folder = Path(sys.argv[1])
for name, arrays in files.items():
    save_file(arrays, folder / f"{name}.safetensors")
optimizer = torch.optim.SGD([torch.nn.Parameter(net[first])], lr=0.1, momentum=0.9).state_dict()
torch.save(net, folder / "plain.pth")
torch.save(net, folder / "legacy.pth", _use_new_zipfile_serialization=False)
for name in ("state_dict", "model", "model_state_dict"):
    torch.save({"epoch": 3, "optimizer": optimizer, name: files["wrapped"]}, folder / f"{name}.pth")
"""


@pytest.mark.timeout(900)
def test_checkpoints_as_torch_writes_them(torch_python: Path, tmp_path: Path, command: Command) -> None:
    script = tmp_path / "write.py"
    script.write_text(CHECKPOINT)
    folders = [ROOT / "benchmarks" / "converting", ROOT / "mxtrain" / "convert" / "torch"]
    subprocess.run([torch_python, script, tmp_path, *folders], check=True, timeout=300)
    for path in sorted(tmp_path.glob("*.pth")):
        done = command("mxtrain.convert", path, tmp_path / "out.params")
        assert done.returncode == 3 and "is a pickle" in done.stderr
        advice = done.stderr[done.stderr.index("python -c") :].strip().replace("python", str(torch_python), 1)
        subprocess.run(["bash", "-c", advice], check=True, timeout=300)
    sources = sorted(tmp_path.glob("*.safetensors"))
    assert len(sources) == 9
    for path in sources:
        flags = ["--image-size", 32, "--torch", torch_python, "--json"]
        done = command("mxtrain.convert", path, tmp_path / f"{path.stem}.params", *flags, timeout=300)
        assert done.returncode == 0, done.stderr
        assert 0 < json.loads(done.stdout)["difference"] <= 1e-5, path
