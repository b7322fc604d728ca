"""Writes the tables of components in the docs: `python docs/make_tables.py`; a test holds them together.

A table stands between `<!-- table: KIND -->` and `<!-- end -->` and is made of the entries in
`mxtrain/config/components/`: their names, numbers with defaults, and what each is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterable, Mapping

from mxtrain.config.components import augmentations, initializers, nets, optimizers, schedules
from mxtrain.config.components.component import Component, Number

DOCS = Path(__file__).parent
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rows(head: Iterable[str], cells: Iterable[Iterable[str]]) -> str:
    lines = [list(head), *map(list, cells)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "".join("|" + "".join(f" {cell} |" if cell else " |" for cell in line) + "\n" for line in lines)


def written(number: Number) -> str:
    """Return a default as it is given to the flag."""
    default = number.default
    if isinstance(default, tuple):
        return "/".join(map(str, default))
    return default if isinstance(default, str) else f"{round(default, 4) or default:g}"


def numbers(component: Component) -> str:
    defaults = {key: written(number) for key, number in component.numbers.items()}
    return ", ".join(f"`{key}={value}`" if value else f"`{key}`" for key, value in defaults.items())


def described(components: Iterable[Component], what: str) -> str:
    return rows(
        ("name", "numbers and defaults", what),
        ((f"`{each.name}`", numbers(each), each.help) for each in components),
    )


def tables() -> Mapping[str, str]:
    """Return each table by its kind."""
    return {
        "optimizers": rows(
            ("name", "numbers and defaults", "weight decay", ""),
            (
                (f"`{each.name}`", numbers(each), each.decay, each.help)
                for each in optimizers.OPTIMIZERS.values()
            ),
        ),
        "schedules": described(schedules.SCHEDULES.values(), "factor"),
        "crops": described(augmentations.CROPS.values(), "what it does"),
        "changes": described(augmentations.CHANGES.values(), "what it does"),
        "box_augmentations": described(augmentations.BOX_AUGMENTATIONS.values(), "what it does"),
        "mask_augmentations": described(augmentations.MASK_AUGMENTATIONS.values(), "what it does"),
        "text_augmentations": described(augmentations.TEXT_AUGMENTATIONS.values(), "what it does"),
        "initializers": described(initializers.INITIALIZERS.values(), "weights are drawn from"),
        "array_nets": described((nets.NETS[name] for name in nets.that_take(nets.ARRAYS)), "what it is"),
        "id_nets": described((nets.NETS[name] for name in nets.that_take(nets.IDS)), "what it is"),
        "text_nets": described((nets.NETS[name] for name in nets.that_take(nets.TEXTS)), "what it is"),
    }


def render(page: str) -> str:
    """Return a page with its tables as they are now."""
    made = tables()
    return BLOCK.sub(lambda block: block[1] + made[block[2]] + block[3], page)


def pages() -> Iterable[Path]:
    """Return the pages that have such a table."""
    return (page for page in sorted(DOCS.glob("*.md")) if BLOCK.search(page.read_text()))


if __name__ == "__main__":
    for page in pages():
        page.write_text(render(page.read_text()))
