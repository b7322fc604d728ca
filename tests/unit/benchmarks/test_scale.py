"""The model of scaling agrees with hand calculations; measured steps are read right."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from benchmarks.harness import tables
from benchmarks.scale import __main__ as scale
from benchmarks.scale import model, published, render
from benchmarks.scale.model import Hosts, Work, expected_latest, servers_needed, step
from benchmarks.scale.results import Rounds, Waits, read, spread, waits
from benchmarks.scale.worker import Timed

ROOT = Path(__file__).resolve().parents[3]
WORK = Work(num_bytes=100e6, seconds=1.0, hideable=0.5, num_buckets=25)
HOSTS = Hosts(network=1e9, adding=0.5e9)


def test_a_worker_alone_waits_for_nobody() -> None:
    assert step(WORK, HOSTS, 1, 1).efficiency == 1


@pytest.mark.parametrize(
    ("num_workers", "num_servers", "waiting"),
    [
        (2, 1, 0.4 / 25),  # 200 MB added at 0.5 GB/s; all of it hides but the last bucket
        (4, 1, 0.3),  # 0.8 s, of which half a second hides
        (4, 2, 0.4 / 25),
        (8, 2, 0.3),
    ],
)
def test_sums_are_waited_for_where_they_outlast_the_backward_pass(
    num_workers: int, num_servers: int, waiting: float
) -> None:
    found = step(WORK, HOSTS, num_workers, num_servers)
    assert found.waiting == pytest.approx(waiting)
    assert found.slowest == "adding on servers"
    assert found.efficiency == pytest.approx(1 / (1 + waiting))


def test_each_resource_can_be_the_limit() -> None:
    assert step(WORK, Hosts(0.1e9), 4, 4).limit == "the workers' network"
    assert step(WORK, Hosts(0.1e9), 4, 1).limit == "the servers' network"
    assert step(WORK, HOSTS, 64, 1).limit == "adding on servers"
    assert step(Work(1e6, 1.0, 0.5, jitter=0.05), HOSTS, 64, 64).limit == "stragglers"


def test_a_server_beside_each_worker_shares_its_network_card() -> None:
    (network, _) = model.limits(WORK, Hosts(1e9, beside_workers=True), 4, 4)
    assert network.seconds == pytest.approx(2 * 0.1 * 3 / 4)


def test_without_servers_each_host_sends_its_part_to_all_and_the_sums_of_it() -> None:
    (network,) = model.limits(WORK, HOSTS, 4, 0)
    assert network.seconds == pytest.approx(2 * 0.1 * 3 / 4)
    assert step(WORK, Hosts(0.1e9), 4, 0).limit == "the workers' network"


def test_as_many_servers_as_keep_up() -> None:
    # A server adds 0.5 GB/s of 100 MB a worker: half a second of hiding is 2.5 workers'.
    assert servers_needed(WORK, HOSTS, 2) == 1
    assert servers_needed(WORK, HOSTS, 10, loss=0.02) == 4
    assert servers_needed(WORK, HOSTS, 10) == 5  # the last bucket of a slower sum hides behind nothing


def test_the_latest_of_many() -> None:
    assert expected_latest(1) == pytest.approx(0, abs=1e-9)
    assert expected_latest(2) == pytest.approx(0.5642, abs=1e-3)
    assert expected_latest(100) == pytest.approx(2.5076, abs=1e-2)


def test_mxnets_table_gives_its_published_efficiency() -> None:
    assert published.TABLE[-1].net == "resnet-152"
    assert f"{published.TABLE[-1].efficiency(256):.1%}" == "90.1%"


@pytest.mark.parametrize("of_net", published.TABLE, ids=lambda each: each.net)
def test_the_model_holds_mxnets_256_gpus_between_its_bounds(of_net: published.Published) -> None:
    least, most = published.bounds(of_net, 256)
    assert least < of_net.efficiency(256) < most


@pytest.mark.parametrize("of_net", published.TABLE, ids=lambda each: each.net)
@pytest.mark.parametrize("num_gpus", [32, 64, 128])
def test_the_model_is_close_to_mxnets_figures_for_fewer_gpus(
    of_net: published.Published, num_gpus: int
) -> None:
    least, most = published.bounds(of_net, num_gpus)
    assert least - 0.012 < of_net.efficiency(num_gpus) < most + 0.006


def test_the_page_holds_what_the_model_says_of_the_published_table() -> None:
    assert published.render() in (ROOT / "docs" / "scaling.md").read_text()


def timed(hides: bool, seconds: float, computed: list[float], finished: float) -> Timed:
    return Timed(hides, seconds, computed, [at + 0.01 for at in computed], finished)


def test_what_is_exposed_is_what_the_later_worker_waits_for() -> None:
    early, late = timed(True, 0.9, [0.2, 0.4], 0.7), timed(True, 1.0, [0.3, 0.6], 0.7)
    (found,) = waits([[early], [late]])
    assert found.seconds == 1.0
    assert found.exposed == pytest.approx(0.1)


def test_a_workers_answer_is_parsed() -> None:
    steps = [timed(True, 0.5, [0.1], 0.2), timed(False, 0.6, [0.4], 0.5)]
    assert read(json.loads(json.dumps([8, steps]))) == (8, steps)


def test_efficiency_is_of_medians_and_of_the_median_round() -> None:
    both = [Waits(True, 2.0, 0.1), Waits(False, 4.0, 0.4)]
    alone, apart = [[1.0, 1.0, 9.0], [1.0], [2.0]], [[1.5], [1.5], [1.5]]
    rounds = Rounds(100, 2, alone, [0.4, 0.25, 0.3], apart, [both, both, both], [0.1] * 3)
    assert rounds.efficiency(hides=True) == pytest.approx(0.5)
    assert rounds.efficiency(hides=False) == pytest.approx(0.25)
    assert rounds.efficiency(hides=True, of_apart=True) == pytest.approx(0.75)
    assert rounds.hidden == pytest.approx(0.75)
    assert rounds.work().hideable == pytest.approx(0.3)
    faster = dataclasses.replace(rounds, alone=[[1.9]])
    bars = scale.bars_of({"resnet50": {"dist_sync": rounds, "allreduce": faster}})
    assert [(bar.found, bar.is_met) for bar in bars] == [("50%", False), ("95%", True)]
    assert scale.bars_of({"resnet18": {"dist_sync": rounds, "allreduce": rounds}}) == []


def test_a_table_of_two_stores_says_which_has_a_server() -> None:
    steps = [Waits(True, 2.0, 0.1), Waits(False, 4.0, 0.4)]
    with_server = Rounds(100, 2, [[1.0] * 6], [0.4], [[1.5]], [steps], [0.1], [(0.1, 0.2)] * 3)
    without = dataclasses.replace(with_server, together=[steps[::-1]], server_cpu_seconds=[], timeline=[])
    text = render.everything({"resnet50": {"dist_sync": with_server, "allreduce": without}})
    assert "|  | resnet50, dist_sync | resnet50, allreduce |" in text
    assert "| CPU ms of the server a step | 100 | no server |" in text


def test_spread_is_the_standard_deviation_without_what_interrupts() -> None:
    import random

    drawn = random.Random(0)
    values = [drawn.gauss(1.0, 0.02) for _ in range(2000)]
    assert spread(values) == pytest.approx(0.02, rel=0.1)
    assert spread([*values, *[50.0] * 20]) == pytest.approx(0.02, rel=0.2)


def test_tables_take_their_place_in_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    begin = tables.begin("scale")
    page.write_text(f"before\n{begin}\nold\n{tables.END}\nafter\n")
    tables.write(page, "scale", "new")
    tables.write(page, "scale", "newer")
    assert page.read_text() == f"before\n{begin}\n\nnewer\n\n{tables.END}\nafter\n"
    page.write_text("no marks")
    with pytest.raises(SystemExit, match="there is no"):
        tables.write(page, "scale", "new")
