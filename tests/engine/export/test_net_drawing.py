"""Drawings of nets: boxes lie apart and within each other, edges join what hands on, and names are only ever text."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any, Iterator

import pytest

from mxtrain.export.drawing import net_drawing, net_graph, net_layout, net_page
from mxtrain.export.drawing.net_layout import Box
from mxtrain.models.analysis import block_calls, layer_table
from mxtrain.models.analysis.layer_table import Net
from mxtrain.runtime import mx

TRAINING = {"optimizer": "sgd", "weight_bytes": 1, "gradient_bytes": 1, "state_bytes": 1}
HOSTILE = "</text></svg><script>alert(1)</script><b onload='x' \"\x00\x1b]0;"


def by_name(name: str) -> Net:
    with net_graph.opened(Path(name), None, net_graph.GraphOptions()) as found:
        return net_graph.table_of(found)


def within(box: Box) -> Iterator[Box]:
    yield box
    for _, _, inner in box.inner:
        yield from within(inner)


@pytest.mark.parametrize("name", ["resnet18_v1b", "googlenet", "hrnet_w18_small_v1_c", "gpt_1m"])
def test_boxes_lie_apart_and_edges_go_from_box_to_box(name: str) -> None:
    net = by_name(name)
    whole = net_layout.layout(net, net.root, "", 99, lambda *_: (120.0, 40.0))
    leaves = [box.what for box in within(whole) if not box.inner]
    assert sorted(number for what in leaves for number in layer_table.operators_of(what)) == [
        *range(len(net.operators))
    ]
    for box in within(whole):
        for number, (x, y, inner) in enumerate(box.inner):
            assert x >= 0 and x + inner.width <= box.width + 0.01 and y > 0 and y + inner.height < box.height
            for other_x, other_y, other in box.inner[:number]:
                beside = x >= other_x + other.width or other_x >= x + inner.width
                assert beside or y >= other_y + other.height or other_y >= y + inner.height
        assert len(box.edges) == (len(net_layout.connections(net, box.what)) if box.inner else 0)
        for points in box.edges:
            assert all(before[1] <= after[1] for before, after in zip(points, points[1:])), "downwards"
            if points[0][1] > net_layout.CAPTION:  # else it comes in from outside
                assert any(touches(points[0], x, y + inner.height, inner) for x, y, inner in box.inner)


def touches(point: tuple[float, float], x: float, y: float, box: Box) -> bool:
    return abs(point[1] - y) < 0.01 and x - 0.01 <= point[0] <= x + box.width + 0.01


def test_what_hands_on_to_what() -> None:
    class Residual(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.branch = mx.gluon.nn.Dense(4)

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return F.relu(self.branch(x) + x)

    net = traced(Residual())
    assert [getattr(each, "class_name", None) for each in net.root.content] == ["Dense", None, None]
    assert sorted(net_layout.connections(net, net.root)) == [(-1, 0), (-1, 1), (0, 1), (1, 2), (2, 3)]


def test_names_are_text_in_pictures_and_pages() -> None:
    hostile = type(HOSTILE.replace("\x00", ""), (mx.gluon.nn.HybridSequential,), {})()
    hostile.add(mx.gluon.nn.Dense(4), mx.gluon.nn.Dense(4))
    net_of_names = mx.gluon.nn.HybridSequential()
    net_of_names.register_child(hostile, HOSTILE)
    net = traced(net_of_names)
    picture = net_drawing.svg(net, net.root, 1, HOSTILE, lambda _: f"#{HOSTILE}", is_alone=True)
    page = net_page.page(net, HOSTILE, TRAINING)
    for text in (picture, page):
        assert (
            "<script" not in text and "\x00" not in text and "\x1b" not in text and "&lt;script&gt;" in text
        )
    root = ElementTree.fromstring(picture)
    kinds = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert kinds <= {"svg", "style", "rect", "text", "tspan", "path", "g", "title", "a"}
    assert not any(key.startswith("on") for element in root.iter() for key in element.attrib)
    assert any("script" in (element.text or "") for element in root.iter() if element.tag.endswith("tspan"))


def test_a_picture_names_layers_shapes_and_work() -> None:
    net = by_name("resnet18_v1b")
    root = ElementTree.fromstring(net_graph.picture(net, "resnet18", TRAINING, ".svg"))
    texts = ["".join(element.itertext()) for element in root.iter() if element.tag.endswith("}text")]
    for words in (
        "Conv2D 7×7 /2conv1",
        "1×64×112×112 · 9.41 k weights · 118 M MACs",
        "BasicBlockV1b0",
        "data 1×3×224×224",
    ):
        assert words in texts
    shallow = net_graph.picture(net, "resnet18", TRAINING, ".svg", depth=1)
    assert len(shallow) < 0.4 * len(net_graph.picture(net, "resnet18", TRAINING, ".svg", depth=4))
    page = net_graph.picture(net, "resnet18", TRAINING, ".html")
    assert page.count("<details>") == page.count('<div id="block-') == 4 + 8 + 3  # stages, blocks, shortcuts
    for number in range(15):
        assert f'href="#block-{number}"' in page


def traced(net: Any) -> Net:
    with block_calls.recorded(net) as calls:
        symbol = net(mx.sym.var("data"))
    return layer_table.of_symbol(symbol, calls, {"data": (1, 4)}, set(net.collect_params()))
