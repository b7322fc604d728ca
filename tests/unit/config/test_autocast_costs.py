"""The table of times by which operators run in bfloat16: the shipped one, users' own, and what is wrong with a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mxtrain.config import autocast_costs
from mxtrain.core.errors import UsageError

SHIPPED = json.loads(autocast_costs.SHIPPED.read_text())["kernels"]


def test_the_shipped_table_says_where_its_times_come_from() -> None:
    assert set(SHIPPED) == {"AVX512_CORE", "AVX512_CORE_BF16", "AVX512_CORE_AMX"}
    assert "measured" in SHIPPED["AVX512_CORE_BF16"]["source"]
    assert "assumed" in SHIPPED["AVX512_CORE_AMX"]["source"]


def test_emulated_bfloat16_pays_for_no_convolution() -> None:
    products = SHIPPED["AVX512_CORE"]["products"]
    slower = [name for name, pair in products.items() if pair["bfloat16"] < pair["float32"]]
    assert len(slower) > 10 and slower == list(products)


def test_kernels_choose_the_times_and_the_hash_tells_them_apart() -> None:
    found = {name: autocast_costs.of_run("bf16", "", name) for name in SHIPPED}
    assert len({each.digest for each in found.values() if each}) == 3
    assert autocast_costs.of_run("auto", "", "AVX512_CORE_VNNI") == autocast_costs.of_run(
        "bf16", "", "AVX512_CORE_VNNI"
    )
    vnni = autocast_costs.of_run("bf16", "", "AVX512_CORE_VNNI")
    assert vnni and found["AVX512_CORE"] and vnni.digest == found["AVX512_CORE"].digest
    assert autocast_costs.of_run("bf16", "", "AVX2") is None
    assert (
        autocast_costs.of_run("off", "", "AVX512_CORE_BF16")
        is autocast_costs.of_run("fp16", "", "AVX512_CORE")
        is None
    )


def test_words_in_a_file_do_not_change_its_hash_and_times_do(tmp_path: Path) -> None:
    own: dict[str, Any] = {"kernels": {"AVX512_CORE_BF16": dict(SHIPPED["AVX512_CORE_BF16"], source="mine")}}

    def digest() -> str:
        path = tmp_path / "own.json"
        path.write_text(json.dumps(own))
        found = autocast_costs.of_run("bf16", str(path), "AVX512_CORE_BF16")
        assert found
        return found.digest

    shipped = autocast_costs.of_run("bf16", "", "AVX512_CORE_BF16")
    assert shipped and digest() == shipped.digest
    own["kernels"]["AVX512_CORE_BF16"]["cast"] += 0.1
    assert digest() != shipped.digest


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "No such file"),
        ("{}", "no table of times"),
        ("[1", "no table of times"),
        (json.dumps({"kernels": {"AVX512_CORE": SHIPPED["AVX512_CORE"]}}), "has times for AVX512_CORE, but"),
        (json.dumps({"kernels": {"AVX512_CORE_BF16": {"products": {}}}}), "not as doctor"),
        (
            json.dumps(
                {
                    "kernels": {
                        "AVX512_CORE_BF16": {
                            **SHIPPED["AVX512_CORE_BF16"],
                            "products": {"dense, many rows": {"float32": 0, "bfloat16": 1}},
                        }
                    }
                }
            ),
            "takes no time",
        ),
    ],
)
def test_a_file_that_is_no_table_for_this_machine_is_refused(
    text: str | None, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "own.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError) as refused:
        autocast_costs.of_run("bf16", str(path), "AVX512_CORE_BF16")
    assert reason in str(refused.value) and str(path) in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
