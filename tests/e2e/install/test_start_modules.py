"""What a start loads: what it loads without need it pays for at each start, and again at each restart."""

from __future__ import annotations

from pathlib import Path

from tests.support.processes.fresh_python import answer

NOT_FOR_TRAINING = {
    *(
        "sklearn",
        "pandas",
        "scipy.sparse",
        "scipy.stats",
        "h5py",
        "PIL",
        "requests",
        "portalocker",
        "setuptools",
    ),
    *(
        "matplotlib",
        "gluoncv",
        "gluoncv.model_zoo",
        "gluoncv.data",
        "tensorboardX",
        "wandb",
        "torch",
    ),
}
NOT_FOR_A_SERVER = {
    *NOT_FOR_TRAINING,
    *(
        "simplejpeg",
        "gluoncv.nn",
        "mxtrain.data.loading.loader",
        "mxtrain.models.nets.zoo",
        "mxtrain.train.loop",
    ),
}


def loaded(code: str, unwanted: set[str]) -> list[str]:
    """The unwanted modules that are there after `code`, which loads mxnet."""
    code = f"import sys\n{code}\nassert 'mxnet' in sys.modules\n"
    found: list[str] = answer(f"{code}answer = sorted({unwanted!r} & set(sys.modules))")
    return found


def test_a_training_of_a_net_of_gluoncvs(shapes: Path, tmp_path: Path) -> None:
    flags = ["--train", str(shapes / "train.rec"), "--model", "cifar_resnet20_v1", "--image-size", "16"]
    flags += ["--batch-size", "4", "--max-steps", "1", "--out", str(tmp_path / "run"), "--log", "none"]
    flags += ["--log-level", "warning"]
    code = f"import contextlib; from mxtrain import fit\nwith contextlib.redirect_stdout(None): fit.command({flags!r})"
    assert loaded(code, NOT_FOR_TRAINING) == []
    assert (tmp_path / "run" / "metrics.jsonl").exists()


def test_a_server() -> None:
    code = "from mxtrain import fit, runtime; runtime.load(threads=1)\nfrom mxtrain.kvstore import server"
    assert loaded(code, NOT_FOR_A_SERVER) == []
