"""Text that a language model writes after a prompt, as `predict --prompt` shows it.

Owns the way from text to tokens and back. How tokens are drawn is `models/nets/generate.py`'s.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any, Callable, Iterator, Sequence

from mxtrain.core import plain_text
from mxtrain.core.errors import UsageError

if TYPE_CHECKING:  # --help is printed without them
    from mxtrain.data.text.tokenizers import Tokenizer
    from mxtrain.runtime.types import Device, Net
    from mxtrain.tasks.lm import LanguageModel
    from mxtrain.tasks.task import Task

UNFINISHED = "\ufffd"  # what a decoder writes for a letter whose last bytes are still to come


@dataclasses.dataclass(frozen=True)
class SamplingOptions:
    """The length of what is to be written, and the numbers by which tokens are drawn; see `models/nets/generate.py`."""

    max_tokens: int = 200
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def check(self) -> None:
        """Refuse numbers that make no sense; NaN makes none."""
        for flag, value, is_right, remedy in (
            ("--max-tokens", self.max_tokens, self.max_tokens >= 1, "1 or more"),
            (
                "--temperature",
                self.temperature,
                0 <= self.temperature < 1e6,
                "0, for the likeliest token, or more",
            ),
            ("--top-k", self.top_k, self.top_k >= 0, "0, for all tokens, or more"),
            ("--top-p", self.top_p, 0 < self.top_p <= 1, "a number above 0, up to 1"),
            ("--seed", self.seed, self.seed >= 0, "0 or more"),
        ):
            if not is_right:
                raise UsageError(f"{flag} {value:g}: give {remedy}")


def check_prompts(prompts: Sequence[str]) -> None:
    """Refuse, with a UsageError, what is no list of texts."""
    if isinstance(prompts, str):
        raise UsageError("--prompt: prompts are a list of texts; put this one into a list")
    for prompt in prompts:
        if not isinstance(prompt, str):
            raise UsageError(f"--prompt: a {type(prompt).__name__} is no text; give a str")
        problem = plain_text.utf8_problem(prompt)
        if problem:
            raise UsageError(f"--prompt {prompt[:40]!a}: {problem}; give it in UTF-8")


def language_model(task: Task, run_name: object) -> LanguageModel:
    """Return the task where it is a language model; UsageError for another one, and where it cannot read text."""
    from mxtrain.tasks.lm import LanguageModel

    if not isinstance(task, LanguageModel):
        raise UsageError(
            f"--prompt: the task of {run_name} is {task.run.model.task}; a prompt is for --task lm"
        )
    return task


def write(
    task: LanguageModel,
    net: Net,
    context: Device,
    prompts: Sequence[str],
    options: SamplingOptions,
    show: Callable[[int, str], None] = lambda number, text: None,
    first: int = 0,
) -> Iterator[dict[str, Any]]:
    """Yield for each prompt its `text`, the number of tokens in it, and whether the document has ended with it.

    `show` gets the number of the prompt, which counts from `first`, and each piece of its text as soon as it is there.
    """
    import numpy as np

    from mxtrain.data.text import tokenizers
    from mxtrain.models.nets import generate

    by = tokenizers.of_portable(task.description["tokenizer"])
    if by.decode is None:
        raise UsageError(f"--prompt: the tokenizer {by.name} has no decode, from ids to text; give it one")
    end, sampling = (
        task.description["end_token"],
        generate.Sampling(options.temperature, options.top_k, options.top_p),
    )
    for number, prompt in enumerate(prompts, first):
        rng = np.random.Generator(np.random.PCG64([options.seed, number]))
        begin = [end, *map(int, by.encode(prompt))]  # a document begins behind the end of another
        drawn = generate.tokens_after(begin, net, task.window, context, sampling, rng)
        tokens: list[int] = []
        has_ended, text = False, ""
        for token in itertools.islice(drawn, options.max_tokens):
            has_ended = token == end
            if has_ended:
                break
            tokens.append(token)
            text = _shown(by, tokens, text, lambda piece, number=number: show(number, piece))  # type: ignore[misc]
        whole = by.decode(tokens)
        show(number, whole[len(text) :])
        yield {"prompt": prompt, "text": whole, "num_tokens": len(tokens), "has_ended": has_ended}


def _shown(by: Tokenizer, tokens: Sequence[int], before: str, show: Callable[[str], None]) -> str:
    """Show what the last token has added to the text `before`, and return all that was shown."""
    assert by.decode is not None
    text = by.decode(tokens)
    if text.endswith(UNFINISHED) or not text.startswith(before):
        return before
    show(text[len(before) :])
    return text
