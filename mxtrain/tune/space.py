"""The space of a search: which values of which flags it tries. Read from YAML, checked before anything starts.

Owns the file, what a flag may be there, and the points of a grid. Whose values are drawn next is `study.py`'s.
"""

from __future__ import annotations

import decimal
import random
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence

from mxtrain import config
from mxtrain.config import Run
from mxtrain.config.checks import bounds, run_checks
from mxtrain.config.flags import from_python, yaml_file
from mxtrain.core.errors import UsageError, nearest

Flags = Dict[str, Any]  # by name, with underscores
BOUNDS = ("low", "high", "step", "log")
MOST_POINTS = 1_000_000
NUM_COMBINATIONS = 20  # with other flags of the space, before a value is refused
# What every trial has in common, or its values could not be compared; and what is the search's own.
COMMON = ("task", "val", "score", "overfit", "out", "resume", "dry_run", "plot_schedule", "threads")


class Parameter(NamedTuple):
    """The values of one flag, of which a search tries some: `choices`, or numbers from `low` to `high`."""

    name: str  # in the search; another than the flag's where that has different values beside others
    flag: str
    line: int
    choices: tuple[Any, ...] = ()
    low: Any = None
    high: Any = None
    step: Any = None
    log: bool = False
    beside: tuple[tuple[str, Any], ...] = ()  # the flags and values without which it does not count

    def counts(self, flags: Mapping[str, Any]) -> bool:
        """Return whether it counts beside these flags."""
        return all(name in flags and flags[name] == value for name, value in self.beside)

    def points(self) -> tuple[Any, ...]:
        """Return all its values; none where it has no end of them."""
        if self.choices or self.step is None:
            return self.choices
        low, high, step = (decimal.Decimal(str(each)) for each in (self.low, self.high, self.step))
        number_type = type(self.low)
        return tuple(number_type(low + number * step) for number in range(int((high - low) // step) + 1))


Space = List[Parameter]


def read(path: Path, base: Run) -> Space:
    """Return the space that a file describes, in which each value can be one of a run like `base`."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"--space {path}: {error.strerror}; give a YAML file of flags and their values"
        ) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"--space {path}: not YAML: {error}") from None
    return parse(text, f"--space {path}", base)


def parse(text: str, name: str, base: Run) -> Space:
    """Return the space that this YAML describes; messages call it `name`."""
    import yaml

    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if not isinstance(root, yaml.MappingNode) or not root.value:
            raise UsageError(f"{name}: expected lines such as 'lr: {{low: 0.001, high: 0.1, log: true}}'")
        space = _Reader(name, loader).space(root)
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{name}: not YAML: {' '.join(str(error).split())}") from None
    _check(name, space, base)
    return space


def drawn(space: Space, draw: Callable[[Parameter], Any]) -> Flags:
    """Return the flags of a trial: a value that `draw` chooses for each parameter that counts beside the others."""
    flags: Flags = {}
    for parameter in space:
        if parameter.counts(flags):
            flags[parameter.flag] = draw(parameter)
    return flags


def run_of(base: Run, flags: Flags) -> Run:
    """Return `base` with these flags."""
    return config.from_flat({**config.to_flat(base), **flags})


def grid(space: Space) -> list[Flags]:
    """Return all points of a space; none where a flag has no end of values, or there are too many to count."""
    points: list[Flags] = [{}]
    for parameter in space:
        values = parameter.points()
        counting = sum(parameter.counts(point) for point in points)
        if counting and (not values or counting * len(values) > MOST_POINTS):
            return []
        points = [
            {**point, parameter.flag: value} if parameter.counts(point) else point
            for point in points
            for value in (values if parameter.counts(point) else (None,))
        ]
    return points


def endless(space: Space) -> list[str]:
    """Return the flags that have no end of values."""
    return [parameter.name for parameter in space if not parameter.points()]


def as_json(space: Space) -> list[dict[str, Any]]:
    """Return what a search keeps of its space, to know it again; the lines of the file do not matter."""
    return [
        {name: value for name, value in parameter._asdict().items() if name not in ("name", "line") and value}
        for parameter in space
    ]


class _Reader:
    """Reads the nodes of one file, whose lines its messages name."""

    def __init__(self, name: str, loader: Any):
        self._name, self._loader = name, loader
        self._defaults = config.to_flat(Run())

    def space(self, root: Any, beside: tuple[tuple[str, Any], ...] = ()) -> Space:
        """Return the parameters of a mapping from flags to values, those that others depend on first."""
        import yaml

        parameters: Space = []
        taken = {name for name, _ in beside}
        for key, node in root.value:
            flag, where = str(key.value).replace("-", "_"), self._where(key)
            if flag not in self._defaults:
                raise UsageError(f"{where}: unknown flag '{flag}'{nearest(flag, self._defaults)}")
            if flag in COMMON:
                raise UsageError(f"{where}: {flag}: is the same for all trials; give it in --config")
            if flag in taken:
                raise UsageError(f"{where}: {flag} is given twice; give it once")
            name = flag + "".join(f" ({other} {value})" for other, value in beside)
            line = key.start_mark.line + 1
            if isinstance(node, yaml.SequenceNode):
                choices = self._choices(where, flag, node.value)
                parameters.append(Parameter(name, flag, line, choices, beside=beside))
            elif isinstance(node, yaml.MappingNode) and {str(each.value) for each, _ in node.value} & {
                *BOUNDS
            }:
                parameters.append(self._range(where, name, flag, node)._replace(line=line, beside=beside))
            elif isinstance(node, yaml.MappingNode):
                choices = self._choices(where, flag, [each for each, _ in node.value])
                parameters.append(Parameter(name, flag, line, choices, beside=beside))
                for choice, (_, inner) in zip(choices, node.value):
                    parameters += self._inner(inner, (*beside, (flag, choice)))
            else:
                raise UsageError(
                    f"{where}: {flag}: give a list of values, or {{low: ..., high: ...}}; one value for all trials "
                    "belongs into --config"
                )
            taken.add(flag)
        _refuse_twice(self._name, parameters, beside)
        return parameters

    def _inner(self, node: Any, beside: tuple[tuple[str, Any], ...]) -> Space:
        """Return the parameters that count beside one choice only; nothing stands there where it has none."""
        import yaml

        if isinstance(node, yaml.ScalarNode) and self._loader.construct_object(node) is None:
            return []
        if not isinstance(node, yaml.MappingNode):
            raise UsageError(f"{self._where(node)}: expected lines such as 'lr: [0.01, 0.1]', or nothing")
        return self.space(node, beside)

    def _choices(self, where: str, flag: str, nodes: Sequence[Any]) -> tuple[Any, ...]:
        values = tuple(self._value(flag, node) for node in nodes)
        if not values:
            raise UsageError(f"{where}: {flag} is an empty list; give values or leave the line out")
        for number, value in enumerate(values):
            if value in values[:number]:
                raise UsageError(
                    f"{self._where(nodes[number])}: {flag}: {value} is given twice; give it once"
                )
        return values

    def _range(self, where: str, name: str, flag: str, node: Any) -> Parameter:
        number_type = type(self._defaults[flag])
        if number_type not in (int, float):
            raise UsageError(f"{where}: {flag} has no range, as it is no number; give a list of values")
        nodes = {str(key.value): inner for key, inner in node.value}
        for key, _ in node.value:
            if key.value not in BOUNDS:
                raise UsageError(
                    f"{self._where(key)}: {flag}: no '{key.value}' in a range{nearest(key.value, BOUNDS)}"
                )
        if not {"low", "high"} <= {*nodes}:
            raise UsageError(f"{where}: {flag}: give both low and high")
        low, high = (self._value(flag, nodes[key]) for key in ("low", "high"))
        step = self._step(flag, number_type, nodes["step"]) if "step" in nodes else None
        log = self._loader.construct_object(nodes["log"]) if "log" in nodes else False
        if not isinstance(log, bool):
            raise UsageError(f"{where}: {flag}: log: expected true or false, got '{nodes['log'].value}'")
        if not low <= high:
            raise UsageError(f"{where}: {flag}: low {low} is above high {high}")
        if step is not None and log:
            raise UsageError(f"{where}: {flag}: give log or step")
        if log and not low > 0:
            raise UsageError(f"{where}: {flag}: log needs a low above 0")
        if number_type is int and not log:
            step = step or 1
        parameter = Parameter(name, flag, 0, low=low, high=high, step=step, log=log)
        return parameter._replace(high=parameter.points()[-1]) if step is not None else parameter

    def _step(self, flag: str, number_type: type, node: Any) -> Any:
        where = f"{self._where(node)}: {flag}: step"
        found = self._loader.construct_object(node)
        value: Any = yaml_file.as_flag(where, flag, found, node.value, number_type())
        if type(value) not in (int, number_type) or not value > 0:
            raise UsageError(f"{where}: give a {'whole ' if number_type is int else ''}number above 0")
        return number_type(value)

    def _value(self, flag: str, node: Any) -> Any:
        """Return one value of a flag, of its type and in its range."""
        import yaml

        where, default = self._where(node), self._defaults[flag]
        if not isinstance(node, yaml.ScalarNode):
            raise UsageError(f"{where}: {flag}: a list has single values, or is one itself")
        value = yaml_file.as_flag(where, flag, self._loader.construct_object(node), node.value, default)
        try:
            run = from_python.run_of({flag: value})
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
        return config.to_flat(run)[flag]

    def _where(self, node: Any) -> str:
        return f"{self._name}:{node.start_mark.line + 1}"


def _refuse_twice(name: str, space: Space, beside: tuple[tuple[str, Any], ...]) -> None:
    """Refuse a flag that counts both beside one choice and anyway, or beside choices of two flags."""
    groups: dict[str, set[tuple[str, ...]]] = {}
    for parameter in space:
        inner = parameter.beside[len(beside) :]
        groups.setdefault(parameter.flag, set()).add(tuple(name for name, _ in inner))
        if len(groups[parameter.flag]) > 1:
            raise UsageError(f"{name}:{parameter.line}: {parameter.flag} is given twice; give it once")


def _check(name: str, space: Space, base: Run) -> None:
    """Refuse a value that no run like `base` can have, whatever the other flags of the space are."""
    for parameter in space:
        for value in parameter.choices or (parameter.low, parameter.high):
            forced = {**dict(parameter.beside), parameter.flag: value}
            errors = []
            for attempt in range(NUM_COMBINATIONS):
                error = _error(base, _drawn_at_random(space, forced, random.Random(attempt)))
                if error is None:
                    break
                errors.append(error)
            else:
                raise UsageError(f"{name}:{parameter.line}: {errors[0]}")


def _drawn_at_random(space: Space, forced: Mapping[str, Any], rng: random.Random) -> Flags:
    """Return a point with the `forced` values; of ranges their ends."""
    return drawn(
        space,
        lambda each: (
            forced[each.flag] if each.flag in forced else rng.choice(each.choices or (each.low, each.high))
        ),
    )


def _error(base: Run, flags: Flags) -> UsageError | None:
    run = run_of(base, flags)
    try:
        bounds.check(run)
        run_checks.check_description(run)
    except UsageError as error:
        return error
    return None
