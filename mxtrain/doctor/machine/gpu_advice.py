"""Words about the links, errors and throttling of GPUs, as `core/system/gpu_links.py` finds them. Pure."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

SLOWED = ("hardware slowdown", "heat", "heat (hardware)", "power brake")


def lines(gpus: Mapping[str, Any]) -> list[str]:
    """Return a line for each GPU and for each two of them."""
    if gpus["error"]:
        return [gpus["error"]]
    names = [_device(device) for device in gpus["devices"]]
    pairs = [
        f"{pair['one']} and {pair['other']}: " + _way(pair)
        for pair in gpus["pairs"]
        if pair["over"] or pair["nvlinks"]
    ]
    return [*names, *pairs]


def advise(gpus: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the GPUs and their links, and what to do."""
    for device in gpus["devices"]:
        name, pcie = f"GPU {device['index']} ({device['bus']})", device["pcie"]
        if device["ecc_errors"]:
            yield (
                f"{name} had {device['ecc_errors']} memory errors that could not be corrected since its driver was "
                "loaded: results may be wrong; reset it (nvidia-smi --gpu-reset), and replace it if they come again"
            )
        slowed = [reason for reason in device["throttled_by"] or () if reason in SLOWED]
        if slowed:
            yield f"{name} is slowed down by {' and '.join(slowed)}: look at fans, dust, air and power cables"
        if pcie["width"] and pcie["width_most"] and pcie["width"] < pcie["width_most"]:
            yield (
                f"{name} has {pcie['width']} of {pcie['width_most']} PCIe lanes: batches, and sums over GPUs, take "
                "as many times as long; seat it anew, in a slot of all lanes, without a riser"
            )
        down = [str(link["link"]) for link in device["nvlinks"] if not link["active"]]
        if down and len(down) < len(device["nvlinks"]):
            yield f"{name}: NVLink {', '.join(down)} of {len(device['nvlinks'])} is down: look at its bridge or switch"
    apart = [pair for pair in gpus["pairs"] if pair["over"] == "CPUs" and not pair["nvlinks"]]
    if apart:
        pairs = ", ".join(f"{pair['one']} and {pair['other']}" for pair in apart)
        yield (
            f"GPUs {pairs} are at different CPUs, without NVLink: sums over them go from socket to socket; name GPUs "
            "of one socket in --devices where there are enough"
        )


def _device(device: Mapping[str, Any]) -> str:
    pcie, links = device["pcie"], device["nvlinks"]
    facts = [f"{device['index']}: {device['name']} at {device['bus']}"]
    if pcie["width"]:
        # At rest a link falls back to a lower generation, to save power.
        facts.append(
            f"PCIe {pcie['generation']} x{pcie['width']} now, {pcie['generation_most']} x{pcie['width_most']} at most"
        )
    facts.append(
        f"{sum(link['active'] for link in links)} of {len(links)} NVLinks up" if links else "no NVLink"
    )
    if device["ecc"] is not None:
        facts.append(f"ECC {'on' if device['ecc'] else 'off'}")
    reasons = [reason for reason in device["throttled_by"] or () if reason != "idle"]
    return ", ".join([*facts, *([f"held back by {' and '.join(reasons)}"] if reasons else [])])


def _way(pair: Mapping[str, Any]) -> str:
    nvlink = f"{pair['nvlinks']} NVLinks" if pair["nvlinks"] else ""
    over = {None: "", "CPUs": "over both CPUs"}.get(pair["over"], f"over {pair['over']}")
    return ", ".join(filter(None, (nvlink, over)))
