"""The description of a run: its five sections together, as flat values and as YAML.

The names, defaults and help of the flags are `config/sections/`'s, a module a section. Parsing is
`config/flags/parsing.py`'s; values are checked by `config/checks/bounds.py` and `config/checks/run_checks.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from mxtrain.config.components import tasks
from mxtrain.config.components.zoo import detector_names, segmenter_names
from mxtrain.config.sections.data import Data
from mxtrain.config.sections.layout import Layout
from mxtrain.config.sections.model import Model
from mxtrain.config.sections.optim import Optim
from mxtrain.config.sections.output import Output

IMAGE_SIZE = 224  # of nets that are made for no other


def image_size_of(model: str) -> int:
    """Return the height and width of the pictures that a net is made for, where --image-size is left out."""
    own = detector_names.image_size_of(model) or segmenter_names.image_size_of(model)
    return own or IMAGE_SIZE


@dataclasses.dataclass(frozen=True)
class Run:
    """A whole run, in five sections.

    `explicit` has the flags that somebody has set, in Python, on the command line or in a file, be it to a default:
    they stay, whatever task the data turn out to be of, and are refused where they mean nothing.
    """

    data: Data = Data()
    model: Model = Model()
    layout: Layout = Layout()
    optim: Optim = Optim()
    output: Output = Output()
    explicit: frozenset[str] = dataclasses.field(default=frozenset(), compare=False, repr=False)

    def __post_init__(self) -> None:
        """Fill in what the task and the net take where --augment and --image-size are left out."""
        data = self.data
        augment = data.augment or tasks.defaults_of(self.model.task).augment
        image_size = data.image_size or image_size_of(self.model.model)
        if (augment, image_size) != (data.augment, data.image_size):
            filled = dataclasses.replace(data, augment=augment, image_size=image_size)
            object.__setattr__(self, "data", filled)

    @classmethod
    def of(cls, **flags: Any) -> Run:
        """Return the run of these flags, called as on the command line but with underscores: `Run.of(batch_size=32)`.

        UsageError for an unknown flag, with the nearest, and for a value of another type or out of its range.
        """
        from mxtrain.config.flags import from_python

        return from_python.run_of(flags)


# --amp is turned off by `off`, other flags by `none`; each takes both words.
SYNONYMS = {
    ("amp", "none"): "off",
    **{(name, "off"): "none" for name in ("augment", "cache", "class_weights", "compress", "log")},
}

SECTIONS: dict[str, Any] = {
    field.name: type(field.default)
    for field in dataclasses.fields(Run)
    if dataclasses.is_dataclass(field.default)
}


# Values that ask for nothing, which any task and any data can fulfil.
NOTHING = (None, False, 0, "", "none", "off", "once", "auto")


def changed(run: Run) -> frozenset[str]:
    """Return the flags that are not what the run's task has for those left out."""
    default = to_flat(Run(model=Model(task=run.model.task)))
    return frozenset(name for name, value in to_flat(run).items() if value != default[name])


def requested(run: Run) -> frozenset[str]:
    """Return the flags that somebody has set to something, be it to a default."""
    flat = to_flat(run)
    return frozenset(name for name in run.explicit & flat.keys() if flat[name] not in NOTHING)


def flag_of(name: str) -> str:
    """Return a flag as it is typed."""
    return "--" + name.replace("_", "-")


def flag_names() -> list[str]:
    """Return every flag of fit, in the order of --help."""
    fields = [field.name for section in SECTIONS.values() for field in dataclasses.fields(section)]
    return [*map(flag_of, fields), "--config", "--print-config"]


def from_flat(flat: dict[str, Any]) -> Run:
    """Return the run of a flat {name: value}; keys that are no flag are ignored."""
    words = {name: value for name, value in flat.items() if isinstance(value, str)}
    flat = {**flat, **{name: SYNONYMS.get((name, word), word) for name, word in words.items()}}
    return Run(
        **{
            name: section(**{f.name: flat[f.name] for f in dataclasses.fields(section) if f.name in flat})
            for name, section in SECTIONS.items()
        }
    )


def to_flat(run: Run) -> dict[str, Any]:
    """Return {name: value} of all flags, sections flattened; the inverse of `from_flat`."""
    sections = (dataclasses.asdict(getattr(run, name)) for name in SECTIONS)
    return {name: value for section in sections for name, value in section.items()}


def to_yaml(run: Run) -> str:
    """Return the run as YAML that `--config` reads, a section after the other."""
    import yaml

    return "".join(
        f"# {name}: {section.__doc__}\n{yaml.safe_dump(dataclasses.asdict(getattr(run, name)), sort_keys=False)}"
        for name, section in SECTIONS.items()
    )
