"""Scripts by which bash, zsh and fish complete the command `mxtrain`.

Owns what a flag takes (words, a path, or neither) and the three scripts, which hold all flags and their words: a TAB
starts no Python. Does not own the commands; they bring their parsers.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Callable, NamedTuple, Sequence

from mxtrain.config.components import (
    augmentations,
    choices,
    initializers,
    losses,
    metrics,
    nets,
    optimizers,
    schedules,
    sinks,
    stores,
    tasks,
)
from mxtrain.config.flags.arguments import png_path
from mxtrain.config.values import addresses, mean_deviation, orders

# The words that a flag of fit takes, and flags whose value is a path, of fit and of others; the rest are free.
WORDS: dict[str, Sequence[str]] = {
    "amp": choices.AMP,
    "augment": tuple(
        dict.fromkeys(
            (
                augmentations.AUTO,
                *augmentations.AUGMENTATIONS,
                *augmentations.BOX_AUGMENTATIONS,
                *augmentations.TEXT_AUGMENTATIONS,
            )
        )
    ),
    "cache": choices.CACHES,
    "checkpoint": ("best", "latest"),
    "class_weights": ("none", "auto"),
    "compress": tuple(stores.COMPRESSIONS),
    "deviation": (mean_deviation.IMAGENET, mean_deviation.AUTO),
    "devices": ("cpu", "gpu"),
    "drop": (*choices.DROPPED, ",".join(choices.DROPPED)),
    "hold": choices.HOLD,
    "init": tuple(initializers.INITIALIZERS),
    "kvstore": tuple(stores.STORES),
    "loader": choices.LOADERS,
    "loader_workers": ("auto",),
    "log": tuple(sinks.SINKS),
    "log_level": choices.LOG_LEVELS,
    "loss": tuple(losses.LOSSES),
    "loss_scale": choices.LOSS_SCALES,
    "masks_at": choices.MASKS_AT,
    "mean": (mean_deviation.IMAGENET, mean_deviation.AUTO),
    "metric": tuple(metrics.METRICS),
    "missing": ("refuse", "mean"),
    "model": tuple(nets.NETS),
    "normalize": choices.NORMALIZE,
    "optimizer": tuple(optimizers.OPTIMIZERS),
    "order": (orders.PERMUTATION, orders.WINDOWS),
    "prune_by": choices.PRUNED,
    "resume": ("auto", "never"),
    "sampling": choices.SAMPLINGS,
    "schedule": tuple(schedules.SCHEDULES),
    "sums": choices.SUMS,
    "task": tuple(tasks.TASKS),
    "tta": (*choices.TTA, "+".join(choices.TTA)),
    "update": choices.UPDATES,
    "verify": choices.VERIFY,
}
PATHS = {
    *(
        "train",
        "val",
        "pack",
        "cache_dir",
        "storage_cache",
        "pretrained",
        "teacher",
        "out",
        "resume",
        "plot_schedule",
        "config",
    ),
    *("checkpoint", "hosts", "folder", "python"),
}


class Flag(NamedTuple):
    """A flag by its names, and what may follow it: one of `words`, a path, another value, or nothing."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    words: tuple[str, ...]
    is_path: bool


class Command(NamedTuple):
    """A command, its flags, and the words or files that it takes without a flag."""

    name: str
    help: str
    flags: tuple[Flag, ...]
    words: tuple[str, ...] = ()
    takes_files: bool = False


HELP = Flag(("-h", "--help"), "show this help", False, (), False)


def of_parsers(
    name: str, help: str, parsers: Sequence[argparse.ArgumentParser], words: Sequence[str] = ()
) -> Command:
    """Return a command with the flags of all its parsers."""
    flags = {HELP.names: HELP}
    takes_files = False
    for action in (action for parser in parsers for action in parser._actions):
        is_path = action.type in (Path, png_path, addresses.path) or action.dest in PATHS
        if not action.option_strings:
            takes_files = takes_files or is_path
            continue
        values = tuple(map(str, action.choices or WORDS.get(action.dest, ())))
        meaning = (action.help or "").replace("%%", "%")
        flag = Flag(tuple(action.option_strings), meaning, action.nargs != 0, values, is_path)
        flags.setdefault(flag.names, flag)
    return Command(name, help, tuple(flags.values()), tuple(words), takes_files)


def bash(commands: Sequence[Command], globally: Sequence[Flag]) -> str:
    """Return the script for bash, where files are what it offers of itself when we offer nothing."""
    cases = []
    for command in commands:
        by_words: dict[tuple[tuple[str, ...], bool], list[str]] = {}
        for flag in command.flags:
            if flag.takes_value:
                by_words.setdefault((flag.words, flag.is_path), []).extend(flag.names)
        for (words, is_path), flags in by_words.items():
            pattern = " | ".join(f'"{command.name} {name}"' for name in flags)
            only = "" if is_path else "compopt +o default; "
            cases.append(f'    {pattern}) {only}words="{" ".join(words)}" ;;')
        words_of_flags = " ".join(name for flag in command.flags for name in flag.names)
        cases.append(f'    "{command.name} "*)')
        cases.append(f'        words="{" ".join(command.words)}"')
        begins = "-*" if command.takes_files or command.words else "*"
        cases.append(f'        case "$current" in {begins}) words="{words_of_flags}" ;; esac')
        cases.append("        ;;")
    first = " ".join(
        [*(command.name for command in commands), *(name for flag in globally for name in flag.names)]
    )
    return f"""# Completion of mxtrain for bash: eval "$(mxtrain --completion bash)"
_mxtrain() {{
    local words="" current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD - 1]}}"
    local command="${{COMP_WORDS[1]}}" before=" ${{COMP_WORDS[*]:2:COMP_CWORD-2}} "
    # bash takes the = of --flag=value for a word of its own.
    if [ "$current" = "=" ]; then
        current=""
    elif [ "$previous" = "=" ]; then
        previous="${{COMP_WORDS[COMP_CWORD - 2]}}"
    fi
    # What follows launch's -- are flags of fit.
    if [ "$command" = launch ] && [ "${{before#* -- }}" != "$before" ]; then command=fit; fi
    if [ "$COMP_CWORD" = 1 ]; then command="" words="{first}"; fi
    case "$command $previous" in
{chr(10).join(cases)}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _mxtrain mxtrain
"""


def zsh(commands: Sequence[Command], globally: Sequence[Flag]) -> str:
    """Return the script for zsh, which may also be a file `_mxtrain` in its $fpath."""
    cases = []
    for command in commands:
        specs = [_zsh_spec(flag) for flag in command.flags]
        if command.words:
            specs.append(_quoted(f"1: :({' '.join(command.words)})"))
        if command.takes_files:
            specs.append(_quoted("*:file:_files"))
        cases.append(f"    {command.name}) _arguments {' '.join(specs)} ;;")
    described = " ".join(_quoted(f"{command.name}:{command.help}") for command in commands)
    return f"""#compdef mxtrain
# Completion of mxtrain for zsh, after compinit: eval "$(mxtrain --completion zsh)"
_mxtrain() {{
    local -a commands=({described})
    if (( CURRENT == 2 )); then
        _describe command commands
        _arguments {" ".join(map(_zsh_spec, globally))}
        return
    fi
    shift words
    (( CURRENT-- ))
    # What follows launch's -- are flags of fit.
    if [[ $words[1] == launch ]] && (( ${{words[(i)--]}} < CURRENT )); then
        (( CURRENT -= ${{words[(i)--]}} - 1 ))
        words=(fit "${{(@)words[${{words[(i)--]}} + 1,-1]}}")
    fi
    case $words[1] in
{chr(10).join(cases)}
    esac
}}
compdef _mxtrain mxtrain
"""


def fish(commands: Sequence[Command], globally: Sequence[Flag]) -> str:
    """Return the script for fish, which completes no flags behind launch's --, nor those of any command."""
    lines = ["# Completion of mxtrain for fish: mxtrain --completion fish | source", "complete -c mxtrain -f"]
    lines += [_fish_line("__fish_use_subcommand", flag) for flag in globally]
    for command in commands:
        here = f"__fish_seen_subcommand_from {command.name}"
        lines.append(
            f"complete -c mxtrain -n __fish_use_subcommand -a {command.name} -d {_quoted(command.help)}"
        )
        lines += [_fish_line(here, flag) for flag in command.flags]
        if command.words:
            lines.append(f"complete -c mxtrain -n {_quoted(here)} -a {_quoted(' '.join(command.words))}")
        if command.takes_files:
            lines.append(f"complete -c mxtrain -n {_quoted(here)} -F")
    return "\n".join(lines) + "\n"


SHELLS: dict[str, Callable[[Sequence[Command], Sequence[Flag]], str]] = {
    "bash": bash,
    "zsh": zsh,
    "fish": fish,
}


def _zsh_spec(flag: Flag) -> str:
    meaning = "".join("\\" + letter if letter in "[]:\\" else letter for letter in flag.help)
    names = f"({' '.join(flag.names)})" if len(flag.names) > 1 else ""
    value = ""
    if flag.takes_value:
        words = " ".join(flag.words)
        both = f'_alternative "word\\:word\\:({words})" "file\\:file\\:_files"'
        offered = both if flag.words and flag.is_path else f"({words})" if flag.words else ""
        value = f":value:{offered or ('_files' if flag.is_path else ' ')}"
    equals = "=" if flag.takes_value else ""
    specs = [f"{name}{equals if name.startswith('--') else ''}" for name in flag.names]
    return " ".join(_quoted(f"{names}{spec}[{meaning}]{value}") for spec in specs)


def _fish_line(where: str, flag: Flag) -> str:
    options = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names)
    takes = ("-r" + (" -F" if flag.is_path else " -f")) if flag.takes_value else ""
    words = f" -a {_quoted(' '.join(flag.words))}" if flag.words else ""
    return f"complete -c mxtrain -n {_quoted(where)} {options} {takes}{words} -d {_quoted(flag.help)}"


def _quoted(text: str) -> str:
    """Return a text in single quotes, for zsh and fish: none of ours needs another way to write a backslash."""
    return "'" + text.replace("'", "’") + "'"
