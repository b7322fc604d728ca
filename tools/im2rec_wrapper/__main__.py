"""The command line of im2rec_wrapper. Only what parses it is imported before it is parsed."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Callable, NoReturn, Sequence

from mxtrain.errors import SIGINT, SIGTERM, DataError, Stopped, UsageError, one_line

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction["_Parser"]

PROGRAM = "im2rec_wrapper"


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)

    def command() -> None:
        parsed = _parser().parse_args(arguments)
        parsed.run(parsed)

    return one_line(PROGRAM, command)


def _pack(parsed: argparse.Namespace) -> None:
    from tools.im2rec_wrapper.pack import Options, pack

    options = Options(
        train_share=parsed.split,
        seed=parsed.seed,
        short_side=parsed.resize,
        quality=parsed.quality,
        skip_bad=parsed.skip_bad,
        num_workers=parsed.workers,
    )
    pack(parsed.source, parsed.out, options)


def _index(parsed: argparse.Namespace) -> None:
    from mxtrain.data.record_writer import rebuild_index
    from mxtrain.data.records import index_path

    num_records = rebuild_index(parsed.rec)
    print(f"wrote {index_path(parsed.rec)}: {num_records} records")


def _check(parsed: argparse.Namespace) -> None:
    import json

    from tools.im2rec_wrapper import check_report
    from tools.im2rec_wrapper.check import check

    report = check(parsed.rec, decode=not parsed.quick)
    if parsed.json:
        print(json.dumps(check_report.as_json(report), indent=1))
    else:
        print(*check_report.as_text(report), sep="\n")
    if parsed.plot and report.files:
        check_report.plot_balance(report.files, parsed.plot)
    bad = [finding for finding in report.findings if finding.is_wrong or parsed.strict]
    if bad:
        files = ", ".join(sorted({str(finding.path) for finding in bad}))
        raise DataError(f"{len(bad)} finding(s) in {files}: see the report, then copy or pack again")


def _show(parsed: argparse.Namespace) -> None:
    from tools.im2rec_wrapper.show import show

    out = parsed.out or parsed.rec.with_suffix(".png")
    num_shown = show(parsed.rec, out, parsed.num, parsed.class_name, parsed.seed)
    print(f"wrote {out}: {num_shown} pictures")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=PROGRAM, description="Pack images into RecordIO files, and look after them.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)

    pack = commands.add_parser(
        "pack",
        help="pack a folder of images",
        description="Pack a folder with a folder per class into OUT/data.rec, with --split into OUT/train.rec and "
        "OUT/val.rec; beside each its .idx and .classes.tsv (line k: name of class k, number of its images). "
        "Files go in as they are, in a shuffled order that depends on seed and names alone; each is decoded once "
        "to check it, and bad ones are listed in OUT.bad.tsv.",
    )
    pack.add_argument("source", metavar="SOURCE", type=Path, help="folder with a folder of images per class")
    pack.add_argument(
        "out", metavar="OUT", type=Path, help="folder, or without --split a name ending in .rec"
    )
    pack.add_argument(
        "--split", metavar="SHARE", type=_share, help="part of each class that goes to train.rec, as in 0.9"
    )
    pack.add_argument("--seed", type=int, default=0, help="of the split and the order (default: 0)")
    pack.add_argument(
        "--resize", metavar="SHORT", type=_whole(1), help="shrink larger images to this short side, in pixels"
    )
    pack.add_argument(
        "--quality",
        metavar="Q",
        type=_whole(1, 100),
        help="re-encode every image as a JPEG of this quality (default: only those that shrink, at 95)",
    )
    pack.add_argument(
        "--skip-bad", action="store_true", help="leave bad images out instead of ending with exit code 3"
    )
    pack.add_argument(
        "--workers",
        metavar="N",
        type=_whole(1),
        help="threads (default: at least 16; any number gives the same bytes)",
    )
    pack.set_defaults(run=_pack)

    index = commands.add_parser(
        "index", help="rebuild a lost .idx", description="Rebuild the .idx of a .rec."
    )
    index.add_argument("rec", metavar="FILE.rec", type=Path)
    index.set_defaults(run=_index)
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
    check.add_argument("--plot", metavar="OUT.png", type=Path, help="draw how many images each class has")
    check.add_argument(
        "--quick", action="store_true", help="decode nothing: no damaged pictures, sizes or near copies"
    )
    check.add_argument(
        "--strict",
        action="store_true",
        help="exit code 3 also for what is else only told: copies within a set, imbalance, no .idx",
    )
    check.set_defaults(run=_check)


def _add_show(commands: _Commands) -> None:
    show = commands.add_parser(
        "show",
        help="draw a contact sheet",
        description="Draw pictures of a .rec, with class and key below each, into one PNG.",
    )
    show.add_argument("rec", metavar="FILE.rec", type=Path)
    show.add_argument("--out", metavar="SHEET.png", type=Path, help="(default: FILE.png)")
    show.add_argument(
        "--num", metavar="N", type=_whole(1, 2000), default=48, help="pictures, drawn at random (default: 48)"
    )
    show.add_argument("--class", metavar="NAME", dest="class_name", help="of this class, by name or number")
    show.add_argument("--seed", type=_whole(0), default=0, help="of the drawing (default: 0)")
    show.set_defaults(run=_show)


def _share(text: str) -> float:
    with_hint = argparse.ArgumentTypeError(f"'{text}' is not a share between 0 and 1, such as 0.9")
    try:
        share = float(text)
    except ValueError:
        raise with_hint from None
    if not 0 < share < 1:
        raise with_hint
    return share


def _whole(least: int, most: int | None = None) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text) if text.isdecimal() else least - 1
        if number < least or (most is not None and number > most):
            bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number {bounds}")
        return number

    return parse


def _stop(number: int, _: object) -> NoReturn:
    signal_name, exit_code = ("SIGINT", SIGINT) if number == signal.SIGINT else ("SIGTERM", SIGTERM)
    raise Stopped(f"stopped by {signal_name}; no half-written file is left", exit_code)


if __name__ == "__main__":
    sys.exit(main())
