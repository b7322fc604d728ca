"""Optimizers that MXNet 1.9.1 lacks, or has in a form that goes wrong.

AdamW, NAdam, AdaMax and AdaDelta are the arithmetic of their namesakes in torch.optim. Decay is part of the gradient
(L2) unless a class says otherwise.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from mxtrain.optim.weight_decay import is_bias_or_norm
from mxtrain.runtime import mx


class _Adam(mx.optimizer.Optimizer):
    """What Adam's kind keep: running means of the gradient and of its square, or what stands in for that."""

    def __init__(self, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, **kwargs: Any):
        super().__init__(**kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def create_state(self, index: int, weight: Any) -> Any:
        return mx.nd.zeros_like(weight), mx.nd.zeros_like(weight)


class AdamW(_Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter)."""

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        self._update_count(index)
        count = self._index_update_count[index]
        rate, decay = self._get_lr(index), self._get_wd(index)
        mean, variance = state
        if decay:
            weight *= 1.0 - rate * decay
        # The kernel takes means that start at 0 as they are; what corrects them goes into the rate and epsilon.
        first, second = 1.0 - self.beta1**count, math.sqrt(1.0 - self.beta2**count)
        mx.nd.adam_update(
            weight,
            grad,
            mean,
            variance,
            lr=rate * second / first,
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon * second,
            rescale_grad=self.rescale_grad,
            clip_gradient=self.clip_gradient or -1.0,
            out=weight,
        )


class NAdam(_Adam):
    """Adam with Nesterov's momentum (Dozat). MXNet's has one momentum schedule for all parameters and devices."""

    def __init__(self, momentum_decay: float = 0.004, **kwargs: Any):
        super().__init__(**kwargs)
        self.momentum_decay = momentum_decay

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        rate, grad, count = _begin(self, index, weight, grad)
        mean, variance = state
        mean[:] = self.beta1 * mean + (1.0 - self.beta1) * grad
        variance[:] = self.beta2 * variance + (1.0 - self.beta2) * grad * grad
        schedule = (self.beta1, self.momentum_decay)
        now, following = momentum_at(*schedule, count), momentum_at(*schedule, count + 1)
        product = momentum_product(*schedule, count)
        step = (1.0 - now) / (1.0 - product) * grad + following / (1.0 - product * following) * mean
        weight[:] -= rate * step / (mx.nd.sqrt(variance / (1.0 - self.beta2**count)) + self.epsilon)


def momentum_at(beta1: float, momentum_decay: float, count: int) -> float:
    """NAdam's momentum of update number `count`, which grows from about a half to the whole of beta1."""
    return beta1 * (1.0 - 0.5 * 0.96 ** (count * momentum_decay))


@functools.lru_cache(maxsize=2)  # asked for by every parameter of a step
def momentum_product(beta1: float, momentum_decay: float, count: int) -> float:
    """The product of the momenta of updates 1 to `count`; 0 where it no longer counts beside 1."""
    product = 1.0
    for number in range(1, count + 1):
        product *= momentum_at(beta1, momentum_decay, number)
        if product < 1e-20:
            return 0.0
    return product


class AdaMax(_Adam):
    """Adam over the largest gradient (Kingma and Ba). MXNet's divides 0 by 0 where a gradient has always been 0."""

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        rate, grad, count = _begin(self, index, weight, grad)
        mean, largest = state
        mean[:] = self.beta1 * mean + (1.0 - self.beta1) * grad
        largest[:] = mx.nd.maximum(self.beta2 * largest, grad.abs() + self.epsilon)
        weight[:] -= rate / (1.0 - self.beta1**count) * mean / largest


class Lamb(_Adam):
    """Adam whose step in each layer is as long as its weights (You et al.), decay being part of the step.

    MXNet's, but for the norms.
    """

    def __init__(
        self, lower_bound: float = 0.0, upper_bound: float = 0.0, bias_correction: int = 1, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.lower_bound, self.upper_bound, self.bias_correction = lower_bound, upper_bound, bias_correction

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
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
    """What SGD's kind keep: a velocity."""

    def __init__(self, momentum: float = 0.9, **kwargs: Any):
        super().__init__(**kwargs)
        self.momentum = momentum

    def create_state(self, index: int, weight: Any) -> Any:
        return mx.nd.zeros_like(weight)


class Nag(_Momentum):
    """SGD with Nesterov's momentum. MXNet's takes the decay of its momentum from the weight it has just changed."""

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        rate, grad, _ = _begin(self, index, weight, grad)
        mx.nd.nag_mom_update(weight, grad, state, lr=rate, momentum=self.momentum, out=weight)


class Signum(_Momentum):
    """Moves by the sign of the mean gradient (Bernstein et al.). MXNet's decays otherwise where momentum is 0."""

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        rate, grad, _ = _begin(self, index, weight, grad)
        mx.nd.signum_update(weight, grad, state, lr=rate, momentum=self.momentum, out=weight)


class Lars(_Momentum):
    """SGD with momentum whose rate is scaled for each layer (You et al.), but not for biases and norm parameters.

    MXNet's scales those too, as Gluon does not tell it their names, and corrects the momentum for a changed rate in
    the first four parameters of the first device only, so that replicas drift apart.
    """

    def __init__(self, eta: float = 0.001, epsilon: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.eta, self.epsilon = eta, epsilon

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        self._update_count(index)
        rate, decay = self._get_lr(index), self._get_wd(index)
        rates = mx.nd.array([rate], ctx=weight.context)
        if index not in self.param_dict or not is_bias_or_norm(self.param_dict[index]):
            size, slope = _norm(weight), _norm(grad) * self.rescale_grad
            share = self.eta * size / (slope + decay * size + self.epsilon)
            rates = rates * mx.nd.where(size * slope > 0, share, mx.nd.ones_like(share))
        # The kernel that reads its rate from an array: nothing has to wait for the norms.
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
    """Zeiler's, times the learning rate. MXNet's ignores the rate, and with it every schedule."""

    def __init__(self, rho: float = 0.9, epsilon: float = 1e-5, **kwargs: Any):
        super().__init__(**kwargs)
        self.rho, self.epsilon = rho, epsilon

    def create_state(self, index: int, weight: Any) -> Any:
        return mx.nd.zeros_like(weight), mx.nd.zeros_like(weight)

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        rate, grad, _ = _begin(self, index, weight, grad)
        squares, deltas = state
        squares[:] = self.rho * squares + (1.0 - self.rho) * grad * grad
        delta = mx.nd.sqrt(deltas + self.epsilon) / mx.nd.sqrt(squares + self.epsilon) * grad
        deltas[:] = self.rho * deltas + (1.0 - self.rho) * delta * delta
        weight[:] -= rate * delta


def _norm(array: Any) -> Any:
    """Its length. MXNet's own `norm` and `multi_sum_sq` lose 5% and more on CPU from 20 million numbers on."""
    flat = array.reshape((-1,))
    return mx.nd.dot(flat, flat).sqrt()


def _begin(optimizer: Any, index: int, weight: Any, grad: Any) -> tuple[float, Any, int]:
    """Count the update; its rate, the gradient with its L2 decay, and its number."""
    optimizer._update_count(index)
    grad = grad * optimizer.rescale_grad
    if optimizer.clip_gradient:
        grad = grad.clip(-optimizer.clip_gradient, optimizer.clip_gradient)
    decay = optimizer._get_wd(index)
    if decay:
        grad = grad + decay * weight
    return optimizer._get_lr(index), grad, optimizer._index_update_count[index]
