"""Links of GPUs through nvidia-ml-py: over a stand-in for NVIDIA's library, built here, and without one.

No GPU was at hand: what the library answers on real ones is taken from its documentation.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mxtrain.core.system import gpu_links
from mxtrain.doctor.machine import gpu_advice

pytest.importorskip("pynvml")


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    source = Path(__file__).with_name("gpu_library.c")
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=30)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    return gpu_links.examine()


def test_links_errors_and_throttling_are_told_with_what_to_do(two_gpus: dict[str, Any]) -> None:
    assert two_gpus["error"] is None
    first, second = two_gpus["devices"]
    assert first["pcie"] == {"generation": 3, "generation_most": 4, "width": 8, "width_most": 16}
    assert [link["active"] for link in first["nvlinks"]] == [True, True, False, True]
    assert (first["bus"], second["bus"]) == ("00000000:3b:00.0", "00000000:af:00.0")
    assert two_gpus["pairs"] == [{"one": 0, "other": 1, "over": "CPUs", "nvlinks": 3}]
    assert (first["throttled_by"], second["throttled_by"]) == (["power limit", "heat"], None)

    lines = "\n".join(gpu_advice.lines(two_gpus))
    assert (
        "0: Tesla V100 at 00000000:3b:00.0, PCIe 3 x8 now, 4 x16 at most, 3 of 4 NVLinks up, ECC on" in lines
    )
    assert "0 and 1: 3 NVLinks, over both CPUs" in lines
    told = list(gpu_advice.advise(two_gpus))
    for number, said in enumerate(
        (
            "GPU 0 (00000000:3b:00.0) is slowed down by heat",
            "GPU 0 (00000000:3b:00.0) has 8 of 16 PCIe lanes",
            "GPU 0 (00000000:3b:00.0): NVLink 2 of 4 is down",
            "GPU 1 (00000000:af:00.0) had 3 memory errors",
        )
    ):
        assert told[number].startswith(said)
    assert len(told) == 4  # NVLink spares them the way over the sockets
    two_gpus["pairs"][0]["nvlinks"] = 0
    assert "GPUs 0 and 1 are at different CPUs, without NVLink" in list(gpu_advice.advise(two_gpus))[-1]


def test_gpus_at_one_switch_are_linked_through_it() -> None:
    def gpu(bus: str, *ends: str) -> dict[str, Any]:
        return {"bus": bus, "nvlinks": [{"link": 0, "active": True, "to": end} for end in ends]}

    assert gpu_links.nvlinks_between(gpu("a", "s1", "s1", "s2"), gpu("b", "s1", "s2")) == 2
    assert gpu_links.nvlinks_between(gpu("a", "c"), gpu("b")) == 0


def test_a_machine_without_the_library_says_so() -> None:
    found = gpu_links.examine()
    assert found["devices"] or "no answer from NVIDIA's management library" in found["error"]
