"""A net as one HTML file that needs nothing else and runs no script: its drawing, and each block's, to be opened.

Owns the page. A box of the drawing leads to its block, which the browser opens.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator

from mxtrain.export.drawing import net_drawing, net_words
from mxtrain.export.drawing.net_drawing import escaped
from mxtrain.export.drawing.net_words import Layer
from mxtrain.models.analysis import layer_table
from mxtrain.models.analysis.layer_table import FLOAT32_BYTES, Element, Net, Part

FIRST_BOXES = 60  # at most, in the drawing of the whole net, unless even its outermost blocks are more
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = """
:root { color-scheme: light dark; --back: #fbfbfa; --front: #1c2127; --pale: #59626d; --rule: #e3e5e8; --panel:
  #fff; --mark: #1f5fa8; }
@media (prefers-color-scheme: dark) { :root { --back: #14171b; --front: #e6e9ec; --pale: #a3acb6; --rule: #2d333a;
  --panel: #191d22; --mark: #7db3ee; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--front); overflow-wrap: anywhere; font-variant-numeric:
  tabular-nums;
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, Arial, "Liberation Sans", sans-serif; }
header, main { max-width: 1180px; margin: 0 auto; padding: 0 24px; }
header { padding-top: 40px; }
h1 { margin: 0; font-size: 1.75rem; line-height: 1.2; font-weight: 650; letter-spacing: -.015em; }
h2 { margin: 40px 0 10px; font-size: 1.2rem; font-weight: 650; }
.pale { color: var(--pale); font-size: .875rem; margin: 4px 0 0; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 18px 24px; margin: 26px 0 0; }
dt { color: var(--pale); font-size: .8rem; }
dd { margin: 0; font-size: 1.25rem; font-weight: 600; letter-spacing: -.01em; }
dd small { display: block; color: var(--pale); font-size: .8rem; font-weight: 400; letter-spacing: 0; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; list-style: none; margin: 0 0 14px; padding: 0; color:
  var(--pale); font-size: .85rem; }
.legend svg { vertical-align: -1px; margin-right: 6px; }
figure { margin: 0; padding: 4px; overflow: auto; background: var(--panel); border: 1px solid var(--rule);
  border-radius: 10px; }
figure svg { display: block; margin: 0 auto; }
main > figure { max-height: 88vh; }
details { border-top: 1px solid var(--rule); }
details details { margin-left: 20px; }
details figure { margin: 4px 0 14px; max-height: 80vh; }
summary { display: grid; grid-template-columns: minmax(0, 1fr) 150px 90px 90px 120px; gap: 12px; align-items:
  center; padding: 7px 0; cursor: pointer; }
summary:hover { color: var(--mark); }
summary:focus-visible, a:focus-visible { outline: 2px solid var(--mark); outline-offset: 2px; border-radius: 3px; }
summary > :first-child::before { content: "▸"; display: inline-block; width: 1.1em; color: var(--pale); }
details[open] > summary > :first-child::before { content: "▾"; }
summary span { text-align: right; font-size: .875rem; }
summary > :first-child { text-align: left; font-size: .95rem; }
summary small { color: var(--pale); margin-left: 8px; font-size: .85rem; }
summary .share { height: 6px; border-radius: 3px; background: var(--rule); overflow: hidden; }
.share i { display: block; height: 100%; background: var(--mark); }
.columns { display: grid; grid-template-columns: minmax(0, 1fr) 150px 90px 90px 120px; gap: 12px; color:
  var(--pale); font-size: .8rem; padding-bottom: 6px; }
.columns span { text-align: right; } .columns :first-child { text-align: left; }
div:target > figure { border-color: var(--mark); }
@media (max-width: 760px) { summary, .columns { grid-template-columns: minmax(0, 1fr) 80px 80px; } .wide { display:
  none; } header, main { padding: 0 14px; } header { padding-top: 24px; } }
"""  # fmt: skip


def page(net: Net, title: str, training: dict[str, Any]) -> str:
    """Return the page; `training` is what learning takes of memory, as in the JSON."""
    ids = {id(part): f"block-{number}" for number, part in enumerate(_blocks(net.root))}
    names = {"dense": "dense, recurrent", "joining": "sums, products", "other": "shapes and the rest"}
    legend = "".join(
        f'<li><svg class="net" width="12" height="12" aria-hidden="true"><rect class="{name}" width="12" height="12" '
        f'rx="3"/></svg>{names.get(name, name)}</li>'
        for name in (*(name for name, _ in net_drawing.GROUPS), "other")
    )

    def link(what: Element) -> str:
        return f"#{ids[id(what)]}" if id(what) in ids else ""

    depth = net_drawing.readable_depth(net, net.root, FIRST_BOXES)
    whole = net_drawing.svg(net, net.root, depth, f"The operators of {title}", link)
    blocks = "".join(_details(net, part, ids, link) for part in _listed(net.root, ids))
    columns = (
        '<div class="columns" aria-hidden="true"><span>block</span><span class="wide">output</span><span>parameters'
        '</span><span>MACs</span><span class="wide">share of the net\'s</span></div>'
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escaped(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}{net_drawing.STYLE}</style></head><body><header><h1>{escaped(title)}</h1>"
        f'<p class="pale">{escaped(_settings_of_net(net))}</p><dl>{"".join(_facts(net, training))}</dl></header><main>'
        f'<h2>The net</h2><ul class="legend">{legend}</ul><figure tabindex="0">{whole}</figure>'
        + (f"<h2>Its blocks</h2>{columns}{blocks}" if blocks else "")
        + "</main></body></html>\n"
    )


def _settings_of_net(net: Net) -> str:
    inputs = ", ".join(f"{name} {net_words.shape_text(shape)}" for name, shape in net.inputs.items())
    return (
        f"For {inputs}: {len(net.operators)} operators. A bar below a box is its share of all multiply-adds."
    )


def _facts(net: Net, training: dict[str, Any]) -> Iterator[str]:
    of_net = layer_table.sums(net)
    rest = of_net.num_parameters - of_net.num_trained
    others = f"and {rest:,} not learnt" if rest else "all are learnt"
    yield _fact("parameters", f"{of_net.num_trained:,}", others)
    if of_net.flops is None or of_net.backward_flops is None:
        yield _fact("multiply-adds", "not known", "an operator does not tell")
    else:
        both = net_words.count((of_net.flops + of_net.backward_flops) // 2)
        yield _fact("multiply-adds", net_words.count(of_net.flops // 2), f"{both} to learn from a sample")
    answer = f"and about {net_words.size(layer_table.inference_bytes(net))} a sample, to answer"
    yield _fact("weights", net_words.size(FLOAT32_BYTES * of_net.num_parameters), answer)
    fixed = training["weight_bytes"] + training["gradient_bytes"] + (training["state_bytes"] or 0)
    more = "its state, not known, and" if training["state_bytes"] is None else "and"
    kept = f"{more} about {net_words.size(of_net.output_bytes)} a sample"
    yield _fact(f"to learn with {training['optimizer']}", net_words.size(fixed), kept)


def _fact(name: str, value: str, beside: str) -> str:
    return f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}<small>{escaped(beside)}</small></dd></div>"


def _blocks(part: Part) -> Iterator[Part]:
    """Yield the parts in which there is more than one operator, but for the outermost."""
    for each in part.content:
        if isinstance(each, Part) and not net_words.is_leaf(each):
            yield each
            yield from _blocks(each)


def _listed(part: Part, ids: dict[int, str]) -> list[Part]:
    """Return the parts in a part that have an id."""
    return [each for each in part.content if isinstance(each, Part) and id(each) in ids]


def _details(net: Net, part: Part, ids: dict[int, str], link: Callable[[Element], str]) -> str:
    row = net_words.layer(net, part, 0, "")
    drawing = net_drawing.svg(net, part, 1, f"The operators of {part.path}", link)
    inner = "".join(_details(net, each, ids, link) for each in _listed(part, ids))
    return (
        f'<details>{_summary(net, row)}<div id="{ids[id(part)]}"><figure tabindex="0">{drawing}</figure>{inner}</div>'
        "</details>"
    )


def _summary(net: Net, row: Layer) -> str:
    total = layer_table.sums(net).flops
    share = (row.sums.flops or 0) / total if total else 0.0
    macs = "?" if row.sums.flops is None else net_words.count(row.sums.flops // 2) if row.sums.flops else ""
    return (
        f"<summary><span>{escaped(row.path)}<small>{escaped(row.layer_type)}</small></span>"
        f'<span class="wide">{net_words.shape_text(row.shape)}</span><span>{row.sums.num_parameters:,}</span>'
        f'<span>{macs}</span><span class="wide share" title="{share:.1%}"><i style="width:{share:.2%}"></i></span>'
        "</summary>"
    )
