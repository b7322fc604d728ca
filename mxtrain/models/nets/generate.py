"""Generation: tokens that a trained net draws one after the other.

Owns the choice of a token by its scores, and how a net is asked for them: our own with keys and values kept, so that
a token costs one token's work; a user's, which may look at its whole window, by the whole window each time. Text is
`inference/text_generation.py`'s.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Iterator, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from mxtrain.core.errors import DataError
from mxtrain.models.nets.gpt import Gpt
from mxtrain.runtime import mx
from mxtrain.runtime.types import Device, NDArray, Net

Scores = npt.NDArray[np.float64]  # of the token that comes next


class Sampling(NamedTuple):
    """Numbers by which a token is drawn."""

    temperature: float = 1.0  # 0: always the likeliest
    top_k: int = 0  # only of so many; 0: of all
    top_p: float = 1.0  # only of the fewest that together are as likely as this


def choose(scores: Scores, sampling: Sampling, rng: np.random.Generator) -> int:
    """Return a token; of equal ones the first is likelier. DataError where the net has diverged."""
    if not np.isfinite(scores.max()):
        raise DataError(
            "the net's scores of tokens are not finite, it has diverged; give another --checkpoint"
        )
    if not sampling.temperature:
        return int(scores.argmax())
    order = np.argsort(-scores, kind="stable")[: sampling.top_k or None]
    shares = np.exp((scores[order] - scores[order[0]]) / sampling.temperature)
    before = np.cumsum(shares) - shares
    kept = before < sampling.top_p * shares.sum()
    sums = np.cumsum(shares[kept])
    return int(order[np.searchsorted(sums, rng.random() * sums[-1], side="right")])


def tokens_after(
    prompt: Sequence[int],
    net: Net,
    length: int,
    context: Device,
    sampling: Sampling,
    rng: np.random.Generator,
) -> Iterator[int]:
    """Yield tokens without end after the `prompt`, by a net whose window is `length`.

    Where the window is full, it goes on with its later half.
    """
    window = list(prompt)[-length:]
    scores_of = with_cache(net, context) if isinstance(net, Gpt) else without_cache(net, length, context)
    scores = scores_of(window, 0)
    while True:
        chosen = choose(scores, sampling, rng)
        yield chosen
        if len(window) == length:
            window = window[-(length // 2) :] if length > 1 else []
            window.append(chosen)
            scores = scores_of(window, 0)
        else:
            window.append(chosen)
            scores = scores_of(window, len(window) - 1)


def without_cache(net: Net, length: int, context: Device) -> Callable[[Sequence[int], int], Scores]:
    """Return a function from tokens to the scores of the next one that computes the whole window each time."""

    def scores_of(tokens: Sequence[int], num_known: int) -> Scores:
        padded = np.zeros((1, length), np.float32)
        padded[0, : len(tokens)] = tokens
        scores = net(mx.nd.array(padded, ctx=context)).astype("float32", copy=False)
        return _numbers(scores[0, len(tokens) - 1])

    return scores_of


def with_cache(net: Gpt, context: Device) -> Callable[[Sequence[int], int], Scores]:
    """Return the same function, which computes the tokens from `num_known` on, as it knows those before.

    It computes in float32, in whatever types the net's own graph does. The tokens are taken for one document.
    """
    weights = {name: each.data(context) for name, each in net._collect_params_with_prefix().items()}
    cached = [_Cache.empty(net, context) for _ in net.layers]

    def dense(name: str, x: NDArray) -> NDArray:
        weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
        arrays = (x, weight) if bias is None else (x, weight, bias)
        return mx.nd.FullyConnected(*arrays, num_hidden=weight.shape[0], no_bias=bias is None, flatten=False)

    def norm(name: str, x: NDArray) -> NDArray:
        return mx.nd.LayerNorm(x, weights[f"{name}.gamma"], weights[f"{name}.beta"])

    def scores_of(tokens: Sequence[int], num_known: int) -> Scores:
        new, end = np.asarray(tokens[num_known:]), len(tokens)
        x = weights["tokens.weight"].take(mx.nd.array(new, ctx=context))
        x = x + weights["positions.weight"].slice_axis(axis=0, begin=num_known, end=end)
        for number, cache in enumerate(cached):
            name = f"layers.{number}"
            projected = dense(f"{name}.attention.project", norm(f"{name}.attention_norm", x))
            x = x + dense(f"{name}.attention.join", cache.attend(projected, num_known, end))
            wide = mx.nd.LeakyReLU(dense(f"{name}.widen", norm(f"{name}.dense_norm", x)), act_type="gelu")
            x = x + dense(f"{name}.narrow", wide)
        return _numbers(dense("scores", norm("norm", x[-1:]))[0])

    return scores_of


class _Cache(NamedTuple):
    """The keys and values of a layer, (heads, length, width of a head), known up to some token."""

    keys: Any
    values: Any

    @classmethod
    def empty(cls, net: Gpt, context: Device) -> _Cache:
        length, width = net.positions.weight.shape
        heads = net.layers[0].attention.heads
        shape = heads, length, width // heads
        return cls(mx.nd.zeros(shape, ctx=context), mx.nd.zeros(shape, ctx=context))

    def attend(self, projected: NDArray, start: int, end: int) -> NDArray:
        """Return what the tokens from `start` to `end` find in all up to themselves, and keep their own."""
        heads, _, width = self.keys.shape
        query, key, value = projected.reshape((-1, heads, 3, width)).transpose((2, 1, 0, 3))
        self.keys[:, start:end], self.values[:, start:end] = key, value
        keys, values = (each.slice_axis(axis=1, begin=0, end=end) for each in self)
        scores = mx.nd.batch_dot(query, keys, transpose_b=True) / math.sqrt(width)
        if end - start > 1:
            later = np.triu(np.full((end - start, end), -np.inf, np.float32), start + 1)
            scores = mx.nd.broadcast_add(scores, mx.nd.array(later[None], ctx=projected.context))
        found = mx.nd.batch_dot(scores.softmax(axis=-1), values)
        return found.transpose((1, 0, 2)).reshape((-1, heads * width))


def _numbers(scores: NDArray) -> Scores:
    numbers: Scores = scores.asnumpy().astype(np.float64)
    return numbers
