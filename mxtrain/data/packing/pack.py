"""Packing a source into .rec files; `pack` reads from top to bottom.

`pack SOURCE OUT` writes OUT/data.rec, or OUT itself where it ends in .rec; with a split OUT/train.rec and
OUT/val.rec; with shards OUT/train-00000-of-00004.rec and so on. Beside each lie its .idx, its .classes.tsv (the same
names in the same order for all), .tokens.json or .arrays.json, and its .sources.tsv. All appear together at the end, or
none; what a killed run or a full disk leaves are *.partial files and OUT.journal, from which the same command resumes.
OUT.bad.tsv lists the items that could not be packed: name, reason; OUT.dropped.tsv what `--drop` has left out.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import time
from collections import Counter
from pathlib import Path
from typing import Callable, Iterator, Sequence

from mxtrain.core.errors import DataError, OutOfResources, Stopped, UsageError
from mxtrain.data.arrays import table_selection
from mxtrain.data.arrays.array_fields import sidecar_path
from mxtrain.data.packing import journal, overlap, resume, samples, sifting, tokens
from mxtrain.data.packing import options as pack_options
from mxtrain.data.packing.options import Options
from mxtrain.data.packing.pack_run import BadItems, OutputFile, PackRun, Progress, unseen, write_all
from mxtrain.data.packing.pictures import images, restart_intervals
from mxtrain.data.packing.pictures.images import ImageOptions
from mxtrain.data.packing.pictures.restart_intervals import NONE
from mxtrain.data.packing.plan import DROPPED, OutputSplit, all_outputs, beside, plan_outputs
from mxtrain.data.packing.preparation import Prepare, prepare_items
from mxtrain.data.packing.sifting import SiftedSource
from mxtrain.data.records import recordio, source_names
from mxtrain.data.records.record_file import classes_path, index_path
from mxtrain.data.records.record_writer import Replacement, aside
from mxtrain.data.records.source_names import sources_path
from mxtrain.data.sources.item import Source
from mxtrain.data.sources.opening import SourceOptions, open_source
from mxtrain.data.text import tokenizers
from mxtrain.data.text.tokenizers import Tokenizer
from mxtrain.data.text.tokens import OF_DOCUMENTS, OF_TOKENS, tokens_path

logger = logging.getLogger(__name__)


def pack(source: Path, out: Path, options: Options, progress: Progress = unseen) -> list[str]:
    """Pack `source` into `out`, and return lines of a summary; DataError for bad items, unless they may be skipped."""
    columns = table_selection.of_flags(options)
    of_type = SourceOptions(options.root, options.multi_label, columns, _scratch(out))
    opened = open_source(source, options.source_type, of_type)
    return pack_opened(source, opened, out, options, progress)


def pack_opened(
    source: Path, opened: Source, out: Path, options: Options, progress: Progress = unseen
) -> list[str]:
    """Pack the `source` that is `opened` already, as `pack` does."""
    started = time.monotonic()
    for warning in opened.warnings:
        logger.warning("warning: %s", warning)
    pack_options.check(options, opened)
    splits = plan_outputs(opened.items, out, options)
    tokenizer = None
    if opened.holds_text:
        tokenizer = tokens.tokenizer(options.tokenizer, tokens.training_texts(splits[0].items, opened))
    restarts = NONE
    if not (tokenizer or opened.layout):
        restarts = restart_intervals.choose_way(options.restart_intervals, is_needed=not options.quality)
    prepare = _preparation(options, opened, tokenizer, restarts)
    overlap.refuse(source, opened, all_outputs(splits, out))
    way = tokenizer.name if tokenizer else restarts
    folder = splits[0].paths[0].parent
    refusal = lambda error: f"cannot make folder {folder}: {error.strerror}; choose another OUT"  # noqa: E731
    with made_folder(folder, refusal), _resumable(), contextlib.ExitStack() as sifting_block:
        sifted = None
        if options.drop:
            sifted = sifting_block.enter_context(
                sifting.sifted(opened, out, options, way, prepare, progress)  # type: ignore[arg-type]
            )
            opened, prepare = sifted.source, sifted.fetch
            splits = plan_outputs(opened.items, out, options)
        run = _packed(splits, opened, out, options, way, prepare, tokenizer, progress, sifted)
    return list(_summary(opened, run, time.monotonic() - started, sifted, out))


def _packed(
    splits: Sequence[OutputSplit],
    source: Source,
    out: Path,
    options: Options,
    way: str,
    prepare: Prepare,
    tokenizer: Tokenizer | None,
    progress: Progress,
    sifted: SiftedSource | None,
) -> PackRun:
    """Write the files of all data sets, and return the run that has."""
    with journal.opened(
        beside(out, ".journal")
    ) as kept, contextlib.ExitStack() as whole_files, _left_when_full():
        described = resume.description(splits, source, options, way, kept.path.parent)
        if sifted:
            described["what --drop leaves"] = sifted.digest
        run = resume.start_or_resume(kept, described, splits, source, whole_files)
        prepared = prepare_items(resume.remaining(splits, run), source, prepare, options.num_workers)
        write_all(run, kept, prepared, source.noun, progress)
        bad = [*(sifted.bad if sifted else ()), *run.bad]
        _report_bad(bad, source.noun, beside(out, ".bad.tsv"), options.skip_bad)
        _list(beside(out, DROPPED), sifted.dropped if sifted else ())
        _write_beside(run, source, tokenizer, whole_files)
        return run


def _scratch(out: Path) -> Path:
    """Return a folder that is there, on the disk that OUT will be on."""
    return next(each for each in (out.parent, *out.resolve().parents) if each.is_dir())


@contextlib.contextmanager
def _resumable() -> Iterator[None]:
    """A block whose files stay after a signal or a full disk; that a next run resumes is said."""
    try:
        yield
    except (Stopped, OutOfResources) as stopped:
        raise Stopped(f"{stopped}; the same command resumes from here", stopped.exit_code) from None


@contextlib.contextmanager
def _left_when_full() -> Iterator[None]:
    """Leave the files as after a signal when the disk is full: they took time to write, and room can be made."""
    try:
        yield
    except OutOfResources as full:
        raise Stopped(str(full), full.exit_code) from None


def _preparation(options: Options, source: Source, tokenizer: Tokenizer | None, restarts: str) -> Prepare:
    if tokenizer:
        return functools.partial(tokens.prepare_tagged if source.is_tagged else tokens.prepare, by=tokenizer)
    if source.layout:
        return samples.prepare
    decodes_all, is_decoded_later = options.verify == "decode", bool(options.drop)
    of_images = ImageOptions(options.short_side, options.quality, decodes_all, is_decoded_later, restarts)
    prepare_one = images.prepare_masked if source.holds_masks else images.prepare
    return functools.partial(prepare_one, options=of_images)


def _report_bad(bad: BadItems, noun: str, bad_list: Path, skip_bad: bool) -> None:
    """Write the list of bad items; DataError unless they may be skipped."""
    _list(bad_list, [(name, reason) for _, name, reason in bad])
    if bad and not skip_bad:
        _, name, reason = bad[0]
        raise DataError(
            f"{len(bad)} bad {noun}, all listed in {bad_list} (the first: {name}: {reason}): "
            "mend or remove them, or add --skip-bad; nothing was packed"
        )


def _list(path: Path, rows: Sequence[Sequence[str]]) -> None:
    """Write a list of items that are not packed; without any, remove that of an earlier run."""
    if not rows:
        path.unlink(missing_ok=True)
        return
    with Replacement(path) as file:
        for row in rows:
            file.write(os.fsencode("\t".join(row) + "\n"))


def _write_beside(
    run: PackRun, source: Source, tokenizer: Tokenizer | None, whole_files: contextlib.ExitStack
) -> None:
    """Write each file's class list or token metadata, and its list of sources, and sync everything to the disk."""
    for file in run.files:
        if not file.num_records:
            raise DataError(f"no good item is left for {file.path}: give more, or ask for fewer files")
        if tokenizer:
            metadata = whole_files.enter_context(Replacement(tokens_path(file.path)))
            metadata.write(
                tokens.metadata(tokenizer, file.num_records, file.num_payload_bytes, _labels(source))
            )
            metadata.sync()
        if not source.layout:
            sidecar_path(file.path).unlink(missing_ok=True)  # of an earlier run
        if source.class_names:
            classes = whole_files.enter_context(Replacement(classes_path(file.path)))
            classes.write(recordio.format_classes(source.class_names, _class_counts(source, run, file)))
            classes.sync()
        else:
            classes_path(file.path).unlink(missing_ok=True)  # of an earlier run
    if tokenizer and tokenizer.content:
        beside_them = run.files[0].path.parent / tokenizers.FILE_NAME
        whole = whole_files.enter_context(Replacement(beside_them))
        whole.write(tokenizer.content.encode())
        whole.sync()
    if source.layout:
        samples.write_layouts(run, source, whole_files)
    for file in run.files:
        file.writer.sync()
    _write_sources(run, source, whole_files)


def _write_sources(run: PackRun, source: Source, whole_files: contextlib.ExitStack) -> None:
    """Write each record's source by its key; a resumed run writes the same lines as an uninterrupted one."""
    lists = {file.path: whole_files.enter_context(Replacement(sources_path(file.path))) for file in run.files}
    for path, sources in lists.items():
        with aside(index_path(path)).open("rb") as index:
            sources.write(source_names.first_line(index))
    keys = dict.fromkeys(lists, 0)
    for file, item in run.packed():
        lists[file.path].write(source_names.line(keys[file.path], source.display_name(item)))
        keys[file.path] += 1
    for sources in lists.values():
        sources.sync()


@contextlib.contextmanager
def made_folder(path: Path, refusal: Callable[[OSError], str]) -> Iterator[None]:
    """Make the folder if need be, and remove it again if it is new and the block leaves it empty.

    Where it cannot be made, `refusal` is the message of the UsageError.
    """
    is_new = not path.exists()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(refusal(error)) from None
    try:
        yield
    finally:
        if is_new:
            with contextlib.suppress(OSError):
                path.rmdir()


def _summary(
    source: Source, run: PackRun, seconds: float, sifted: SiftedSource | None, out: Path
) -> Iterator[str]:
    num_packed = sum(file.num_records for file in run.files)
    noun = source.noun
    names = source.class_names or ()
    classes = f" of {len(names)} classes" if names else ""
    if names and _has_numbers(source, run):
        shown = ", ".join(names[:5]) + ", ..." * (len(names) > 5)
        classes = f" with {'a number' if len(names) == 1 else f'{len(names)} numbers'} each ({shown})"
    num_bad = len(run.bad) + (len(sifted.bad) if sifted else 0)
    skipped = f", {num_bad} bad ones skipped" if num_bad else ""
    yield f"packed {num_packed} {noun}{classes} in {seconds:.1f} s{skipped}"
    if sifted and sifted.dropped:
        counts = sorted(Counter(each.why for each in sifted.dropped).items())
        shown = ", ".join(f"{count} {why}" for why, count in counts)
        yield f"  left out {len(sifted.dropped)} ({shown}), all listed in {beside(out, DROPPED)}"
    for note, count in sorted(run.notes.items()):
        yield f"  {count} {note}"
    for file in run.files:
        a_class = _class_counts(source, run, file)
        spread = f", {min(a_class)} to {max(a_class)} a class ({classes_path(file.path)})" if a_class else ""
        yield f"  {file.path}: {file.num_records} {noun}{spread}"


def _has_numbers(source: Source, run: PackRun) -> bool:
    """Return whether the labels of an item are numbers to predict, which the class list names."""
    return run.holds_numbers and not source.is_tagged


def _class_counts(source: Source, run: PackRun, file: OutputFile) -> list[int] | None:
    """Return the number of items of each class; None where a label is no class of its item."""
    is_unknown = source.is_tagged or source.holds_masks or _has_numbers(source, run)
    if is_unknown or not source.class_names:
        return None
    return [file.num_of_class[label] for label in range(len(source.class_names))]


def _labels(source: Source) -> str | None:
    """Return what text has labels for."""
    if source.is_tagged:
        return OF_TOKENS
    return OF_DOCUMENTS if source.class_names else None
