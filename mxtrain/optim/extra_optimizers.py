"""Optimizers that MXNet 1.9.1 lacks, or has with a bug that its class here names.

Owns their update rules; `optimizers.py` builds them. AdamW, NAdam, AdaMax and AdaDelta compute what their namesakes in
torch.optim do. Decay is part of the gradient (L2) unless a class says otherwise.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from mxtrain.optim.weight_decay import is_bias_or_norm
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray, Optimizer


class _Adam(mx.optimizer.Optimizer):
    """Adam's state: running means of the gradient and of its square, or of what replaces that."""

    def __init__(self, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, **kwargs: Any):
        super().__init__(**kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def create_state(self, index: int, weight: NDArray) -> Any:
        return mx.nd.zeros_like(weight), mx.nd.zeros_like(weight)


class AdamW(_Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter)."""

    def update(self, index: int, weight: NDArray, grad: NDArray, state: Any) -> None:
        self._update_count(index)
        rate, decay = self._get_lr(index), self._get_wd(index)
        mean, variance = state
        if decay:
            weight *= 1.0 - rate * decay
        rate, epsilon = self.corrected(index, rate)
        mx.nd.adam_update(
            weight,
            grad,
            mean,
            variance,
            lr=rate,
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=epsilon,
            rescale_grad=self.rescale_grad,
            clip_gradient=self.clip_gradient or -1.0,
            out=weight,
        )

    def corrected(self, index: int, rate: float) -> tuple[float, float]:
        """Return rate and epsilon for a kernel that does not correct the bias of means that start at 0."""
        count = self._index_update_count[index]
        first, second = 1.0 - self.beta1**count, math.sqrt(1.0 - self.beta2**count)
        return rate * second / first, self.epsilon * second


class NAdam(_Adam):
    """Adam with Nesterov's momentum (Dozat). MXNet's has one momentum schedule for all parameters and devices."""

    def __init__(self, momentum_decay: float = 0.004, **kwargs: Any):
        super().__init__(**kwargs)
        self.momentum_decay = momentum_decay

    def update(self, index: int, weight: NDArray, grad: NDArray, state: Any) -> None:
        rate, grad, count = _prepare(self, index, weight, grad)
        mean, variance = state
        mean[:] = self.beta1 * mean + (1.0 - self.beta1) * grad
        variance[:] = self.beta2 * variance + (1.0 - self.beta2) * grad * grad
        schedule = (self.beta1, self.momentum_decay)
        now, following = momentum_at(*schedule, count), momentum_at(*schedule, count + 1)
        product = momentum_product(*schedule, count)
        step = (1.0 - now) / (1.0 - product) * grad + following / (1.0 - product * following) * mean
        weight[:] -= rate * step / (mx.nd.sqrt(variance / (1.0 - self.beta2**count)) + self.epsilon)


def momentum_at(beta1: float, momentum_decay: float, count: int) -> float:
    """Return NAdam's momentum at update number `count`: from about a half of beta1, it grows to beta1."""
    decayed: float = 0.96 ** (count * momentum_decay)
    return beta1 * (1.0 - 0.5 * decayed)


@functools.lru_cache(maxsize=2)  # every parameter of a step needs it
def momentum_product(beta1: float, momentum_decay: float, count: int) -> float:
    """Return the product of the momenta of updates 1 to `count`; 0 once it is negligible beside 1."""
    product = 1.0
    for number in range(1, count + 1):
        product *= momentum_at(beta1, momentum_decay, number)
        if product < 1e-20:
            return 0.0
    return product


class AdaMax(_Adam):
    """Adam with the largest gradient (Kingma and Ba). MXNet's divides 0 by 0 if a gradient has always been 0."""

    def update(self, index: int, weight: NDArray, grad: NDArray, state: Any) -> None:
        rate, grad, count = _prepare(self, index, weight, grad)
        mean, largest = state
        mean[:] = self.beta1 * mean + (1.0 - self.beta1) * grad
        largest[:] = mx.nd.maximum(self.beta2 * largest, grad.abs() + self.epsilon)
        weight[:] -= rate / (1.0 - self.beta1**count) * mean / largest


class Lamb(_Adam):
    """Adam with a step as long as the weights in each layer (You et al.), decay being part of the step.

    It is MXNet's but for the norms, see `_norm`.
    """

    def __init__(
        self, lower_bound: float = 0.0, upper_bound: float = 0.0, bias_correction: int = 1, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.lower_bound, self.upper_bound, self.bias_correction = lower_bound, upper_bound, bias_correction

    def update(self, index: int, weight: NDArray, grad: NDArray, state: Any) -> None:
        self._update_count(index)
        mean, variance = state
        direction = mx.nd.lamb_update_phase1(
            weight,
            grad,
            mean,
            variance,
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
            t=self._index_update_count[index],
            bias_correction=self.bias_correction,
            wd=self._get_wd(index),
            rescale_grad=self.rescale_grad,
            clip_gradient=self.clip_gradient or -1.0,
        )
        mx.nd.lamb_update_phase2(
            weight,
            direction,
            _norm(weight),
            _norm(direction),
            lr=self._get_lr(index),
            lower_bound=self.lower_bound or -1.0,
            upper_bound=self.upper_bound or -1.0,
            out=weight,
        )


class _Momentum(mx.optimizer.Optimizer):
    """SGD's state: a velocity."""

    def __init__(self, momentum: float = 0.9, **kwargs: Any):
        super().__init__(**kwargs)
        self.momentum = momentum

    def create_state(self, index: int, weight: NDArray) -> Any:
        return mx.nd.zeros_like(weight)


class Nag(_Momentum):
    """SGD with Nesterov's momentum. MXNet's computes the momentum's decay from the weight after its change."""

    def update(self, index: int, weight: NDArray, grad: NDArray, state: Any) -> None:
        rate, grad, _ = _prepare(self, index, weight, grad)
        mx.nd.nag_mom_update(weight, grad, state, lr=rate, momentum=self.momentum, out=weight)


class Signum(_Momentum):
    """SGD by the sign of the mean gradient (Bernstein et al.). MXNet's decays differently with a momentum of 0."""

    def update(self, index: int, weight: NDArray, grad: NDArray, state: Any) -> None:
        rate, grad, _ = _prepare(self, index, weight, grad)
        mx.nd.signum_update(weight, grad, state, lr=rate, momentum=self.momentum, out=weight)


class Lars(_Momentum):
    """SGD with momentum and a rate scaled for each layer (You et al.), but not for biases and norm parameters.

    MXNet's scales those too, as it does not get their names from Gluon, and corrects the momentum for a changed rate
    in the first four parameters of the first device only, so that replicas diverge.
    """

    def __init__(self, eta: float = 0.001, epsilon: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.eta, self.epsilon = eta, epsilon

    def update(self, index: int, weight: NDArray, grad: NDArray, state: Any) -> None:
        self._update_count(index)
        rate, decay = self._get_lr(index), self._get_wd(index)
        rates = mx.nd.array([rate], ctx=weight.context)
        if index not in self.param_dict or not is_bias_or_norm(self.param_dict[index]):
            size, slope = _norm(weight), _norm(grad) * self.rescale_grad
            scale = self.eta * size / (slope + decay * size + self.epsilon)
            rates = rates * mx.nd.where(size * slope > 0, scale, mx.nd.ones_like(scale))
        # This kernel reads its rate from an array, so nothing waits for the norms.
        mx.nd.preloaded_multi_sgd_mom_update(
            weight,
            grad,
            state,
            rates,
            mx.nd.array([decay], ctx=weight.context),
            momentum=self.momentum,
            rescale_grad=self.rescale_grad,
            clip_gradient=self.clip_gradient or -1.0,
            num_weights=1,
            out=weight,
        )


class AdaDelta(mx.optimizer.Optimizer):
    """Zeiler's AdaDelta times the learning rate. MXNet's ignores the rate, and with it every schedule."""

    def __init__(self, rho: float = 0.9, epsilon: float = 1e-5, **kwargs: Any):
        super().__init__(**kwargs)
        self.rho, self.epsilon = rho, epsilon

    def create_state(self, index: int, weight: NDArray) -> Any:
        return mx.nd.zeros_like(weight), mx.nd.zeros_like(weight)

    def update(self, index: int, weight: NDArray, grad: NDArray, state: Any) -> None:
        rate, grad, _ = _prepare(self, index, weight, grad)
        squares, deltas = state
        squares[:] = self.rho * squares + (1.0 - self.rho) * grad * grad
        delta = mx.nd.sqrt(deltas + self.epsilon) / mx.nd.sqrt(squares + self.epsilon) * grad
        deltas[:] = self.rho * deltas + (1.0 - self.rho) * delta * delta
        weight[:] -= rate * delta


def _norm(array: NDArray) -> NDArray:
    """Return the L2 norm; on a CPU MXNet's `norm` and `multi_sum_sq` lose 5% and more from 20 million numbers on."""
    flat = array.reshape((-1,))
    return mx.nd.dot(flat, flat).sqrt()


def _prepare(optimizer: Optimizer, index: int, weight: NDArray, grad: NDArray) -> tuple[float, NDArray, int]:
    """Count the update; return its rate, the gradient with its L2 decay, and the number of the update."""
    optimizer._update_count(index)
    grad = grad * optimizer.rescale_grad
    if optimizer.clip_gradient:
        grad = grad.clip(-optimizer.clip_gradient, optimizer.clip_gradient)
    decay = optimizer._get_wd(index)
    if decay:
        grad = grad + decay * weight
    return optimizer._get_lr(index), grad, optimizer._index_update_count[index]


def ada_grad(epsilon: float, **others: Any) -> Optimizer:
    """Return MXNet's AdaGrad, which calls `epsilon` otherwise."""
    return mx.optimizer.AdaGrad(eps=epsilon, **others)
