"""The command line of im2rec_wrapper, and its commands index, upload, check and show; `pack_command.py` has pack.

Imports no more than parsing needs until the command line is parsed.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("im2rec_wrapper")

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Sequence

from mxtrain.config.flags.arguments import LARGEST_SEED, Parser, png_path
from mxtrain.core import command_name, interrupts, outputs
from mxtrain.core.errors import DataError, UsageError, one_line

from . import pack_command
from .arguments import whole_number

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[Parser]

PROGRAM = "im2rec_wrapper"
GRACE_SECONDS = 5.0  # from a signal to the end, whatever threads wait for: a disk may never answer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit code."""

    def command() -> None:
        parsed = _parser().parse_args(arguments)
        import numpy  # noqa: F401  # every command needs it, and it does not survive an exception in its import

        with interrupts.stopped_by_signal(PROGRAM, GRACE_SECONDS):
            parsed.run(parsed)

    return one_line(PROGRAM, command)


def _index(parsed: argparse.Namespace) -> None:
    from mxtrain.data.records.record_file import index_path
    from mxtrain.data.records.record_writer import rebuild_index

    for rec in parsed.rec:
        print(f"wrote {index_path(rec)}: {rebuild_index(rec)} records")


def _upload(parsed: argparse.Namespace) -> None:
    from mxtrain.config.values import addresses
    from mxtrain.data.records.record_upload import upload

    if not addresses.is_address(parsed.folder):
        raise UsageError(
            f"{parsed.folder}: is no address of a store, such as s3://bucket/photos; cp copies files here"
        )
    folder = addresses.parse("", parsed.folder)
    for rec in parsed.rec:
        print(f"wrote {upload(rec, folder)}", flush=True)


def _check(parsed: argparse.Namespace) -> None:
    import json

    from .checking import check_report, copies_list
    from .checking.check import check

    accepted = copies_list.accepted_pairs(parsed.accept)
    if parsed.copies:
        copies_list.refuse_other_files("--copies", parsed.copies)
        if parsed.copies.resolve() in [path.resolve() for path in parsed.accept]:
            raise UsageError(
                f"--copies {parsed.copies}: is --accept's list; give another name, and join the two"
            )
    report = check(parsed.rec, decode=not parsed.quick, accepted=accepted)
    if parsed.json:
        print(json.dumps(check_report.as_json(report), indent=1))
    else:
        print(*check_report.as_text(report), sep="\n")
    if parsed.copies:
        num_pairs = copies_list.write(parsed.copies, report.findings)
        print(f"wrote {parsed.copies}: {num_pairs} pairs", file=sys.stderr if parsed.json else sys.stdout)
    if parsed.plot and report.files:
        check_report.plot_balance(report.files, parsed.plot)
    bad = [finding for finding in report.findings if finding.is_wrong or parsed.strict]
    if bad:
        files = ", ".join(sorted({str(finding.path) for finding in bad}))
        raise DataError(f"{len(bad)} finding(s) in {files}: see the report, then copy or pack again")


def _show(parsed: argparse.Namespace) -> None:
    from .show import show, show_copies

    if (parsed.rec is None) == (parsed.copies is None):
        raise UsageError("give either a FILE.rec, or --copies and a list that `check --copies` wrote")
    out = parsed.out or (parsed.rec or parsed.copies).with_suffix(".png")
    outputs.refuse_input("--out", out, parsed.rec or parsed.copies)
    if parsed.copies:
        num_shown, num_pairs = show_copies(parsed.copies, out, parsed.num)
        print(f"wrote {out}: {num_shown} of {num_pairs} pairs")
        return
    num_shown = show(parsed.rec, out, parsed.num, parsed.class_name, parsed.seed)
    print(f"wrote {out}: {num_shown} pictures")


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command, by the command's name."""
    commands = _parser()._subparsers
    assert commands is not None
    return dict(commands._group_actions[0].choices)  # type: ignore[arg-type]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=command_name.packer(),
        description="Pack images or text into RecordIO files, and check, show, index and upload these.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)

    pack_command.add(commands)
    index = commands.add_parser(
        "index", help="rebuild a lost .idx", description="Rebuild the .idx of each .rec, from the .rec alone."
    )
    index.add_argument("rec", metavar="FILE.rec", type=Path, nargs="+")
    index.set_defaults(run=_index)
    upload = commands.add_parser(
        "upload",
        help="copy .rec files into an object store",
        description="Copy each .rec into a folder of an object store, with what belongs to it and a .heads, which "
        "holds the labels of all records; a .rec that is there is whole.",
    )
    upload.add_argument("rec", metavar="FILE.rec", type=Path, nargs="+")
    upload.add_argument("folder", metavar="ADDRESS", help="of the folder, as in s3://bucket/photos")
    upload.set_defaults(run=_upload)
    _add_check(commands)
    _add_show(commands)
    return parser


def _add_check(commands: _Commands) -> None:
    check = commands.add_parser(
        "check",
        help="find what is wrong with .rec files",
        description="Look at every byte of the files: frames, checksums, .idx, labels and class list, pictures that "
        "cannot be decoded, copies within a file and between files. Exit code 3 when something is wrong.",
    )
    check.add_argument(
        "rec", metavar="FILE.rec", type=Path, nargs="+", help="give train and val together to find leaks"
    )
    check.add_argument("--json", action="store_true", help="print everything as JSON")
    check.add_argument("--plot", metavar="OUT.png", type=png_path, help="draw how many images each class has")
    check.add_argument(
        "--quick", action="store_true", help="decode nothing: no damaged pictures, sizes or near copies"
    )
    check.add_argument(
        "--strict",
        action="store_true",
        help="exit code 3 also for what else is only a note: copies within a set, imbalance, no .idx",
    )
    check.add_argument(
        "--copies",
        metavar="LIST.tsv",
        type=Path,
        help="list the copies found, for show --copies and --accept",
    )
    check.add_argument(
        "--accept",
        metavar="LIST.tsv",
        type=Path,
        action="append",
        default=[],
        help="find nothing in the pairs of such a list; may be given again",
    )
    check.set_defaults(run=_check)


def _add_show(commands: _Commands) -> None:
    show = commands.add_parser(
        "show",
        help="draw a contact sheet",
        description="Draw pictures of a .rec, with class and key below each, into one PNG; or the copies that check "
        "has found, side by side.",
    )
    show.add_argument("rec", metavar="FILE.rec", type=Path, nargs="?")
    show.add_argument(
        "--copies",
        metavar="LIST.tsv",
        type=Path,
        help="draw the pairs that check --copies has listed, in order",
    )
    show.add_argument("--out", metavar="SHEET.png", type=png_path, help="(default: FILE.png or LIST.png)")
    show.add_argument(
        "--num",
        metavar="N",
        type=whole_number(1, 2000),
        default=48,
        help="pictures, drawn at random, or pairs (default: 48)",
    )
    show.add_argument("--class", metavar="NAME", dest="class_name", help="of this class, by name or number")
    show.add_argument(
        "--seed", type=whole_number(0, LARGEST_SEED), default=0, help="of the drawing (default: 0)"
    )
    show.set_defaults(run=_show)


if __name__ == "__main__":
    sys.exit(main())
