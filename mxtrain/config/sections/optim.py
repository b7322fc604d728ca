"""Flags of batches, the optimizer and its schedule, and the length of the run."""

from __future__ import annotations

import dataclasses

from mxtrain.config.components.schedules import SCHEDULES
from mxtrain.config.sections.flag import flag


@dataclasses.dataclass(frozen=True)
class Optim:
    """Batches, the optimizer and its schedule, the length of the run."""

    batch_size: int = flag(64, "samples in one optimizer update, over all devices and workers")
    micro_batch: int = flag(
        0, "samples in one forward/backward; 0: derived from batch_size alone, 32 at most"
    )
    accumulate: int = flag(
        0, "micro-batches that each device sums up; alone, it sets micro_batch to fit; 0: derived"
    )
    optimizer: str = flag(
        "sgd", "an optimizer and its numbers, as in adamw:beta2=0.95,epsilon=1e-6, or module:callable"
    )
    lr: float = flag(0.1, "peak learning rate, for the global batch")
    lr_scale: str = flag(
        "", "rates of some parameters, times lr: patterns as of --freeze, as in 'features.*=0.1,output.*=10'"
    )
    layer_decay: float = flag(
        1.0, "each layer's rate is this times that of the layer after it, as in 0.75; 1: all alike"
    )
    momentum: float = flag(0.9, "momentum of sgd, nag and others that have one; beta1 of the adam family")
    weight_decay: float = flag(1e-4, "weight decay; biases and norm parameters have none")
    decay_all: bool = flag(False, "let weight decay act on biases and norm parameters too")
    lr_base_batch: int = flag(0, "the peak is lr x batch_size / this, the linear rule; 0: it is lr")
    schedule: str = flag(
        "cosine",
        f"{' | '.join(SCHEDULES)}, with numbers as in "
        "multistep:at=30/60/80 (epochs) or cosine:cycles=3,floor=0.01; or module:callable",
    )
    warmup_epochs: float = flag(0.0, "epochs in which the rate climbs to its peak")
    distill_weight: float = flag(0.5, "the teacher's share of the loss, from 0 to 1")
    distill_temperature: float = flag(4.0, "by this both nets' outputs are softened for the teacher's share")
    label_smoothing: float = flag(0.0, "this share of each label is spread over all classes")
    clip_norm: float = flag(
        0.0, "shorten the gradient, all parameters as one vector, to this length at most; 0: off"
    )
    clip_value: float = flag(0.0, "cut every number of the gradient to this size at most; 0: off")
    ema: float = flag(
        0.0, "evaluate and keep a moving average of the weights with this decay, as in 0.9999; 0: off"
    )
    average: int = flag(
        0,
        "end with the mean of the weights at the ends of so many of the last epochs (stochastic weight averaging); "
        "0: off",
    )
    sums: str = flag(
        "exact",
        "how gradients are added: exact (on CPUs the same bits for any devices, workers and accumulation) | fast (as "
        "they come); a resumed run keeps its own",
    )
    compress: str = flag(
        "none",
        "gradients on their way to other processes: none | 2bit, or 2bit:threshold=0.5 | bf16, of allreduce alone",
    )
    max_bad_steps: int = flag(
        5, "this many steps in a row whose gradients are not finite end the run; fewer are skipped"
    )
    overfit: int = flag(
        0, "train on this many batches again and again, without augmentation, and evaluate on them; 0: off"
    )
    early_stop: int = flag(0, "end after this many evaluations without a better score; 0: off; needs --val")
    epochs: int = flag(90, "passes over the training set")
    epoch_steps: int = flag(0, "updates that are an epoch of a stream, which has no length; for nothing else")
    max_steps: int = flag(0, "stop after this many updates; 0: only epochs count")
    seed: int = flag(0, "the one number that all randomness comes from")
