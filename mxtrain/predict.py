"""`python -m mxtrain.predict IMAGE...`: the likeliest classes of pictures, by a trained net."""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("mxtrain.predict")

import json
import sys
from pathlib import Path
from typing import Any, Sequence

from mxtrain import config
from mxtrain.checkpoint import locations
from mxtrain.checkpoint.input_identity import description_of
from mxtrain.config.arguments import Parser
from mxtrain.core import regular_files
from mxtrain.core.errors import DataError, UsageError, one_line
from mxtrain.train import trained_run


def main(argv: Sequence[str] | None = None) -> int:
    return one_line("mxtrain.predict", lambda: predict(argv))


def predict(argv: Sequence[str] | None = None) -> None:
    """Print the classes of each picture that the arguments name."""
    options = parser().parse_args(argv)
    if options.top < 1:
        raise UsageError(f"--top {options.top}: give 1 or more")
    problems = [_problem(image) for image in options.images]
    if all(problems):
        raise DataError(f"{options.images[0]}: {problems[0]}")

    checkpoint = trained_run.find_checkpoint(options)
    run = config.from_flat(checkpoint.state["config"])
    if run.model.task != "classification":
        raise UsageError(f"--run {options.run}: its --task is {run.model.task}; predict is for pictures")
    class_names = description_of(checkpoint.state)["class_names"]
    locations.make_importable(checkpoint, run.model.model)
    net, contexts = trained_run.open_net(checkpoint, options.devices)
    num_bad = 0
    for image in options.images:
        try:
            picture = _read(image, run)
        except DataError as error:
            if len(options.images) == 1:
                raise
            num_bad += 1
            print(f"mxtrain.predict: {error}", file=sys.stderr, flush=True)
            continue
        classes = _classes(net, contexts[0], picture, class_names)[: options.top]
        if options.json:
            print(json.dumps({"image": str(image), "classes": classes}), flush=True)
        else:
            text = ", ".join(f"{each['class']} {each['probability']:.3f}" for each in classes)
            print(f"{image}: {text}", flush=True)
    if num_bad:
        raise DataError(
            f"{num_bad} of {len(options.images)} pictures could not be read; they are named above"
        )


def parser() -> Parser:
    """Return the parser of this command's flags."""
    flags = trained_run.parser("predict", "Name what is in pictures.")
    flags.add_argument("images", nargs="+", type=Path, metavar="IMAGE", help="picture files")
    flags.add_argument("--top", type=int, default=3, help="how many classes are named for each picture")
    return flags


def _problem(image: Path) -> str | None:
    """Return why `image` cannot be read as a file; None if it can."""
    try:
        regular_files.require(image)
    except FileNotFoundError:
        return "no such file"
    except IsADirectoryError:
        return "is a folder, give its pictures"
    except OSError as error:
        return error.strerror
    return None


def _read(image: Path, run: Any) -> Any:
    """Return the picture as the net takes it; DataError, with the file's name, if there is none in it."""
    import numpy as np

    from mxtrain.data import tiff
    from mxtrain.data.augment import eval_transform
    from mxtrain.data.pictures import resize_of

    size = run.data.image_size
    picture = np.empty((1, 3, size, size), np.float32)
    try:
        content = regular_files.read(image)
        eval_transform(size, resize_of(run.data))(content, None, picture[0])
    except OSError as error:
        raise DataError(f"{image}: {_problem(image) or error.strerror}") from None
    except ValueError as error:
        raise DataError(f"{image}: {error}") from None
    if tiff.num_pages(content) > 1:
        print(f"{image}: has {tiff.num_pages(content)} pages; page 1 is taken", file=sys.stderr)
    return picture


def _classes(net: Any, context: Any, picture: Any, class_names: list[str]) -> list[dict[str, Any]]:
    """Return every class with its probability, the likeliest first."""
    import numpy as np

    from mxtrain.train.to_device import to_context

    output = net(to_context(picture, context)).astype("float32", copy=False)
    probabilities = output.softmax(axis=1).asnumpy()[0]
    order = np.argsort(-probabilities, kind="stable")
    return [{"class": class_names[i], "probability": float(probabilities[i])} for i in order]


if __name__ == "__main__":
    raise SystemExit(main())
