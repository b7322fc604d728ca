"""`python -m mxtrain.report RUN [RUN ...]`: the page of a run, or of several; pictures of curves; a live page."""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("mxtrain.report")

from pathlib import Path
from typing import Sequence

from mxtrain.config.flags.arguments import Parser
from mxtrain.core import command_name, durable, interrupts
from mxtrain.core.errors import UsageError, one_line

PROGRAM = "mxtrain.report"


def main(argv: Sequence[str] | None = None) -> int:
    return one_line(PROGRAM, lambda: command(argv))


def command(argv: Sequence[str] | None = None) -> None:
    """Write the page of the runs that the arguments name, or pictures of their curves, or show them live."""
    options = parser().parse_args(argv)
    folders = [Path(run) for run in (*options.runs, *options.run)]
    if not folders:
        raise UsageError("give a run: the --out of mxtrain.fit")
    if options.serve is not None and (options.png or options.out):
        raise UsageError("--serve writes no file; leave --png and --out out")
    if options.text:
        if options.png or options.out or options.serve is not None:
            raise UsageError(
                "--text prints the diagnosis and writes no file; leave --png, --out and --serve out"
            )
        print(_diagnoses(folders), flush=True)
        return

    from mxtrain.report import history
    from mxtrain.report.page import html_page, page_data, page_inputs, pngs, serve

    histories = [history.read(folder) for folder in folders]
    if options.serve is not None:
        html_page.plotly_script()  # or refuse here
        with interrupts.stopped_by_signal(PROGRAM), serve.server(histories, options.serve) as server:
            say(f"http://{serve.ADDRESS}:{server.server_port}/ shows {_names(folders)}; Ctrl-C ends it")
            server.serve_forever()
    elif options.png:
        for path in pngs.write(histories, Path(options.out or folders[0] / "report")):
            say(f"wrote {path}")
    else:
        path = Path(options.out or folders[0] / "report.html")
        page_inputs.refuse(path, histories)
        text = html_page.page(page_data.page_data(histories))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise durable.cannot_write(path, error) from None
        with durable.whole_file(path) as file:
            file.write(text.encode())
        say(f"wrote {path}")


def parser() -> Parser:
    """Return the parser of this command's flags."""
    flags = Parser(
        prog=command_name.typed("python -m mxtrain.report"),
        description="Make the page of a run, or of several, as one HTML file: RUN/report.html.",
    )
    flags.add_argument("runs", nargs="*", metavar="RUN", help="a run folder: the --out of mxtrain.fit")
    flags.add_argument(
        "--run", action="append", default=[], metavar="RUN", help="the same, as a flag; again for more"
    )
    flags.add_argument(
        "--out",
        metavar="FILE",
        help="the page's file, or the folder of the pictures; in the first run when left out",
    )
    flags.add_argument(
        "--png", action="store_true", help="write the curves as pictures instead, into RUN/report/"
    )
    flags.add_argument(
        "--text", action="store_true", help="print the diagnosis instead: what is wrong, and what to change"
    )
    flags.add_argument(
        "--serve",
        nargs="?",
        type=_port,
        const=0,
        metavar="PORT",
        help="show the runs while they go on, on this machine only; any free port without a number",
    )
    return flags


def _diagnoses(folders: Sequence[Path]) -> str:
    """Return the diagnosis of each run in words."""
    from mxtrain.report import diagnosis, history

    parts = [(folder, diagnosis.in_words(diagnosis.diagnose(history.read(folder)))) for folder in folders]
    return "\n\n".join(text if len(parts) == 1 else f"{folder}\n{text}" for folder, text in parts)


def say(sentence: str) -> None:
    print(f"{PROGRAM}: {sentence}", flush=True)


def _port(text: str) -> int:
    if not text.isdecimal() or not int(text) < 65536:
        raise UsageError(f"--serve {text}: is no port; give a number up to 65535, or the runs before --serve")
    return int(text)


def _names(folders: Sequence[Path]) -> str:
    return str(folders[0]) if len(folders) == 1 else f"{len(folders)} runs"


if __name__ == "__main__":
    raise SystemExit(main())
