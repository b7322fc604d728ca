"""A drawing of a net as SVG: boxes of operators and blocks with their shapes, parameters and multiply-adds.

Owns how it looks, in light and dark; `net_layout.py` says where things lie. Names are text and nothing else: whatever a
net calls its layers, no markup comes of it.
"""

from __future__ import annotations

import html
import re
from typing import Callable, Iterator, Sequence

from mxtrain.export.drawing import net_layout, net_words
from mxtrain.export.drawing.net_layout import PAD, Box
from mxtrain.export.drawing.net_words import Layer
from mxtrain.models.analysis import layer_table
from mxtrain.models.analysis.layer_table import Element, Net, Part

HEIGHT, LEAST_WIDTH, MARGIN = 44.0, 104.0, 20.0
LETTER, SMALL_LETTER = 7.6, 6.4  # about the width of one, in pixels
LONGEST_TEXT = 44
MOST_BOXES = 160  # in a drawing whose depth nobody has asked for
UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML cannot hold

# Groups of operators that look alike, by words in MXNet's names of them; the first that fits.
GROUPS = (
    ("dense", ("FullyConnected", "dot", "matmul", "gemm", "Embedding", "RNN")),
    ("convolution", ("onvolution",)),
    ("norm", ("Norm", "norm")),
    ("pooling", ("Pooling", "mean")),
    ("activation", ("Activation", "ReLU", "relu", "sigmoid", "tanh", "softmax", "erf", "clip", "Dropout", "swish")),
    ("joining", ("add", "concat", "Concat", "mul", "sub", "div", "plus", "minus", "stack", "power")),
)  # fmt: skip
STYLE = """
svg.net { --paper: #fbfbfa; --card: #ffffff; --open: rgba(31,95,168,.045); --ink: #1c2127; --soft: #59626d;
  --line: #d5d9de; --edge: #8a94a0; --dense: #7a4fa3; --convolution: #1f5fa8; --norm: #0f7480; --pooling: #7d6608;
  --activation: #b8500f; --joining: #22703c; --other: #7d8894; }
@media (prefers-color-scheme: dark) { svg.net { --paper: #14171b; --card: #1b1f24; --open: rgba(125,179,238,.06);
  --ink: #e6e9ec; --soft: #a3acb6; --line: #39414a; --edge: #76818d; --dense: #bd9be0; --convolution: #7db3ee;
  --norm: #5cc3cf; --pooling: #d9c25a; --activation: #f0955a; --joining: #74c48d; --other: #8b96a2; } }
svg.net { font-family: system-ui, -apple-system, "Segoe UI", Roboto, Arial, "Liberation Sans", sans-serif;
  font-variant-numeric: tabular-nums; }
svg.net text { fill: var(--ink); font-size: 12.5px; font-weight: 600; }
svg.net text.small, svg.net tspan.small { fill: var(--soft); font-size: 11px; font-weight: 400; }
svg.net .card { fill: var(--card); stroke: var(--line); }
svg.net .behind { fill: var(--card); stroke: var(--line); }
svg.net .open { fill: var(--open); stroke: var(--line); }
svg.net .edge { fill: none; stroke: var(--edge); stroke-width: 1.4; }
svg.net .head { fill: var(--edge); }
svg.net a:hover .card { stroke: var(--convolution); }
""" + "\n".join(
    f"svg.net .{name} {{ fill: var(--{name}); }}" for name in (*(group for group, _ in GROUPS), "other")
)  # fmt: skip


def svg(
    net: Net,
    what: Element,
    depth: int,
    label: str,
    link: Callable[[Element], str] = lambda _: "",
    is_alone: bool = False,
) -> str:
    """Return the drawing of a part, opened down to `depth`. `is_alone` for a file of its own, with style and paper.

    `link` gives the address that a box leads to, or nothing.
    """

    def closed(part: Element, path: str) -> tuple[float, float]:
        first, second = _texts(net, net_words.layer(net, part, 0, path))
        name = _name(part, path)
        widest = max(LETTER * len(first) + SMALL_LETTER * (len(name) + 1), SMALL_LETTER * len(second))
        return max(widest + 26, LEAST_WIDTH), HEIGHT

    box = net_layout.layout(net, what, "", depth, closed)
    total = layer_table.sums(net).flops or 0
    drawn = "".join(_drawn(net, box, MARGIN, MARGIN, total, link, is_outermost=True))
    width, height = box.width + 2 * MARGIN, box.height + 2 * MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="net" role="img" aria-label="{escaped(label)}"'
    style = f"<style>{STYLE}</style>" if is_alone else ""
    paper = '<rect width="100%" height="100%" style="fill: var(--paper)"/>' if is_alone else ""
    return (
        f'{head} width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">'
        f"{style}{paper}{drawn}</svg>"
    )


def readable_depth(net: Net, what: Element, most_boxes: int = MOST_BOXES) -> int:
    """Return how far blocks can be opened for so many boxes; 1 if even that has more."""
    depth = 1
    while depth < 32 and _count(what, depth) < _count(what, depth + 1) <= most_boxes:
        depth += 1
    return depth


def group_of(net: Net, what: Element) -> str:
    """Return the group that a box is coloured for: that of the operator with most work, or of the first."""
    numbers = layer_table.operators_of(what)
    heaviest = max(numbers, key=lambda number: net.operators[number].flops or 0)
    operator_type = net.operators[heaviest].operator_type
    return next((name for name, words in GROUPS if any(word in operator_type for word in words)), "other")


def escaped(text: str) -> str:
    """Return a text for XML and HTML, in elements and in attributes."""
    return html.escape(UNPRINTABLE.sub("�", text))


def _count(what: Element, depth: int) -> int:
    if isinstance(what, int) or depth <= 0 or net_words.is_leaf(what):
        return 1
    return sum(_count(each, depth - 1) for each in what.content)


def _drawn(
    net: Net,
    box: Box,
    x: float,
    y: float,
    total: int,
    link: Callable[[Element], str],
    is_outermost: bool = False,
) -> Iterator[str]:
    row = net_words.layer(net, box.what, 0, box.path)
    if not box.inner:
        yield _closed(net, box, row, x, y, total, link(box.what))
        return
    if not is_outermost:
        sizes = f'x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
        yield f'<rect class="open" {sizes} rx="9"/>'
        name = f'<tspan class="small" dx="6">{escaped(_name(box.what, box.path))}</tspan>'
        title = f'<text x="{x + PAD:.1f}" y="{y + 17:.1f}">{escaped(_shortened(row.layer_type))}{name}</text>'
        address = link(box.what)
        yield f'<a href="{escaped(address)}">{title}</a>' if address else title
    else:
        inputs = ", ".join(f"{name} {net_words.shape_text(shape)}" for name, shape in net.inputs.items())
        caption = _shortened(inputs) if box.what is net.root else _shortened(row.path)
        middle = x + box.enter
        yield f'<text class="small" text-anchor="middle" x="{middle:.1f}" y="{y + 17:.1f}">{escaped(caption)}</text>'
    yield from (_edge(points, x, y) for points in box.edges)
    for inner_x, inner_y, inner in box.inner:
        yield from _drawn(net, inner, x + inner_x, y + inner_y, total, link)


def _closed(net: Net, box: Box, row: Layer, x: float, y: float, total: int, address: str) -> str:
    first, second = _texts(net, row)
    group = group_of(net, box.what)
    width, height = f"{box.width:.1f}", f"{box.height:.1f}"
    share = (row.sums.flops or 0) / total if total else 0.0
    behind = ""
    if not net_words.is_leaf(box.what):  # looks like a stack
        behind = f'<rect class="behind" x="4" y="4" width="{width}" height="{height}" rx="7"/>'
    work = ""
    if share > 0:
        length = max(1.5, share * (box.width - 20))
        place = f'x="12" y="{box.height - 5:.1f}" width="{length:.1f}" height="2" rx="1"'
        work = f'<rect class="{group}" opacity=".8" {place}/>'
    tip = f"{row.path} {row.layer_type}: {row.sums.num_parameters:,} parameters"
    if row.sums.flops:
        tip += f", {row.sums.flops // 2:,} MACs ({share:.1%} of the net's)"
    name = _name(box.what, box.path)
    drawn = (
        f'<g transform="translate({x:.1f},{y:.1f})"><title>{escaped(tip)}</title>{behind}'
        f'<rect class="card" width="{width}" height="{height}" rx="7"/>'
        f'<rect class="{group}" x="0.5" y="8" width="4" height="{box.height - 16:.1f}" rx="2"/>'
        f'<text x="13" y="18">{escaped(first)}<tspan class="small" dx="6">{escaped(name)}</tspan></text>'
        f'<text class="small" x="13" y="34">{escaped(second)}</text>{work}</g>'
    )
    return f'<a href="{escaped(address)}">{drawn}</a>' if address else drawn


def _texts(net: Net, row: Layer) -> tuple[str, str]:
    """Return the two lines of a closed box."""
    numbers = layer_table.operators_of(row.what)
    words = net_words.settings(net.operators[numbers[0]]) if len(numbers) == 1 else ""
    second = [net_words.shape_text(row.shape)]
    if row.sums.num_parameters:
        second.append(f"{net_words.count(row.sums.num_parameters)} weights")
    if row.sums.flops:
        second.append(f"{net_words.count(row.sums.flops // 2)} MACs")
    return _shortened(f"{row.layer_type} {words}".strip()), _shortened(" · ".join(second))


def _name(what: Element, path: str) -> str:
    """Return the name of a part within the block around it."""
    if not isinstance(what, Part):
        return ""
    inside = what.path[len(path) + 1 :] if path and what.path.startswith(f"{path}.") else what.path
    return _shortened(inside)


def _shortened(text: str) -> str:
    return f"{text[: LONGEST_TEXT - 1]}…" if len(text) > LONGEST_TEXT else text


def _edge(points: Sequence[tuple[float, float]], x: float, y: float) -> str:
    """Return a curve through the points, straight down wherever it begins, ends or passes boxes, and its head."""
    (start_x, start_y), *others = [(x + each_x, y + each_y) for each_x, each_y in points]
    path = [f"M{start_x:.1f} {start_y:.1f}"]
    for number, (to_x, to_y) in enumerate(others):
        end_y = to_y - 5 if number == len(others) - 1 else to_y
        half = (start_y + end_y) / 2
        straight = abs(to_x - start_x) < 0.5
        path.append(
            f"V{end_y:.1f}"
            if straight
            else f"C{start_x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {end_y:.1f}"
        )
        start_x, start_y = (start_x if straight else to_x), end_y
    head = f"M{start_x:.1f} {start_y + 5:.1f}l-3.5 -6h7z"
    return f'<path class="edge" d="{"".join(path)}"/><path class="head" d="{head}"/>'
