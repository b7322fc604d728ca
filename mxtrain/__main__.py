"""`mxtrain COMMAND`: each of the commands by a name of its own, and completion of their flags.

Owns the list of commands. A command then runs as by `python -m`, where its flags, signals and exit codes are.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Sequence

import mxtrain
from mxtrain.core import command_name, interrupts
from mxtrain.core.errors import UsageError, nearest, one_line

PROGRAM = "mxtrain"
PACKER = "the packer"
# For each command the module that it runs, and what it does.
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Nets": {
        "fit": ("mxtrain.fit", "train a net, on one machine or a cluster"),
        "evaluate": ("mxtrain.evaluate", "how good a trained net is on a data set, and where it errs"),
        "predict": ("mxtrain.predict", "what a trained net says: classes, features, mistakes"),
        "export": ("mxtrain.export", "a trained net for ONNX's runtimes, or for MXNet itself"),
        "convert": ("mxtrain.convert", "take over nets of torch, and give nets to it"),
    },
    "Runs": {
        "tune": ("mxtrain.tune", "search the best values of flags, by training with many"),
        "report": ("mxtrain.report", "the page of a run, or of several: curves, time, classes, samples"),
    },
    "Data": {
        "pack": (PACKER, "make .rec files of images or text"),
        "check": (PACKER, "find what is wrong with .rec files"),
        "show": (PACKER, "draw a contact sheet of a .rec file"),
        "index": (PACKER, "rebuild a lost .idx"),
    },
    "Machines": {
        "launch": ("mxtrain.launch", "a job over several hosts: by hand, ssh, Slurm or Kubernetes"),
        "doctor": ("mxtrain.doctor", "what this machine can do, what is wrong, and what to do"),
    },
}
COMMANDS = {name: found for group in GROUPS.values() for name, found in group.items()}
SHELLS = ("bash", "zsh", "fish")  # config/flags/completion.py's, which takes longer to import than --help may


def main() -> int:
    """Run the command that the words of this process name."""
    interrupts.exit_on_signal(PROGRAM)
    return one_line(PROGRAM, lambda: command(sys.argv[1:]))


def command(words: list[str]) -> None:
    """Print what was asked about mxtrain itself, or become one of its commands."""
    first, rest = (words or [""])[0], words[1:]
    if first in ("-h", "--help"):
        print(help_text())
    elif first == "--version":
        print(f"mxtrain {mxtrain.__version__}")
    elif first.startswith("--completion"):
        shell = first.partition("=")[2] or "".join(rest[:1])
        if shell not in SHELLS:
            raise UsageError(f"--completion {shell}: give one of {', '.join(SHELLS)}")
        print(completion(shell), end="")
    elif first in COMMANDS:
        module = COMMANDS[first][0]
        if module == PACKER:
            module, rest = command_name.packer_module(), words
        command_name.run(module, f"{PROGRAM} {first}", rest)
    else:
        reason = f"unknown command {first}{nearest(first, COMMANDS)}" if first else "give a command"
        raise UsageError(f"{reason}; mxtrain --help lists them")


def help_text() -> str:
    """Return what --help prints."""
    lines = ["usage: mxtrain COMMAND ...  (mxtrain COMMAND --help lists its flags)"]
    for title, group in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:<10}{help}" for name, (_, help) in group.items())]
    return "\n".join(
        [
            *lines,
            "",
            "mxtrain --version",
            "mxtrain --completion bash|zsh|fish: a script to complete commands, flags and their values, as in\n"
            '  eval "$(mxtrain --completion bash)"        in ~/.bashrc; also for zsh, after compinit\n'
            "  mxtrain --completion fish | source         in ~/.config/fish/config.fish",
        ]
    )


def completion(shell: str) -> str:
    """Return the script by which a shell completes the commands, their flags and what these take."""
    from mxtrain import evaluate, predict
    from mxtrain.config.flags import completion, fit_parser
    from mxtrain.convert import __main__ as convert
    from mxtrain.doctor import __main__ as doctor
    from mxtrain.export import __main__ as export
    from mxtrain.launch import __main__ as launch
    from mxtrain.launch import k8s, slurm, ssh
    from mxtrain.report import __main__ as report
    from mxtrain.tune import __main__ as tune

    sys.path[0] = os.getcwd()  # as python -m has it, for the packer of a checkout
    packer: Any = importlib.import_module(f"{command_name.packer_module()}.__main__")
    parsers: dict[str, Sequence[Any]] = {
        "fit": [fit_parser.shown(f"{PROGRAM} fit", fit_parser.flags())],
        "evaluate": [evaluate.parser()],
        "predict": [predict.parser()],
        "export": [export.parser()],
        "tune": [tune.parser()],
        "convert": [convert.parser()],
        "report": [report.parser()],
        **{name: [parser] for name, parser in packer.parsers().items()},
        "launch": [each.parser() for each in (launch, ssh, slurm, k8s)],
        "doctor": [doctor.parser()],
    }
    words = {"launch": (*launch.ROLES, launch.LOCAL, *launch.SCRIPTS)}
    commands = [
        completion.of_parsers(name, help, parsers[name], words.get(name, ()))
        for name, (_, help) in COMMANDS.items()
    ]
    globally = [
        completion.HELP,
        completion.Flag(("--version",), "print the version", False, (), False),
        completion.Flag(("--completion",), "print a script for a shell", True, SHELLS, False),
    ]
    return completion.SHELLS[shell](commands, globally)


if __name__ == "__main__":
    sys.exit(main())
