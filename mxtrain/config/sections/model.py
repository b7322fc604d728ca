"""Flags of the net, its initial weights, its loss and its precision."""

from __future__ import annotations

import dataclasses

from mxtrain.config.components import tasks
from mxtrain.config.components.initializers import INITIALIZERS
from mxtrain.config.sections.flag import flag


@dataclasses.dataclass(frozen=True)
class Model:
    """The net, its initial weights, its loss and its precision."""

    task: str = flag(
        "classification",
        f"what is learnt: {' | '.join(tasks.TASKS)}; or module:Class",
    )
    model: str = flag(
        "",
        "a net by name: GluonCV's classifiers, small_cnn, small_resnet; of arrays mlp:hidden=128/64, conv1d, lstm; "
        "of text gpt_1m to gpt_1500m, gpt:layers=6,heads=6,width=384, of its classes bilstm, text_cnn, transformer; "
        "or module:callable; left out: the task's (resnet18_v1b of pictures, mlp of arrays, gpt_10m of text)",
    )
    init: str = flag(
        "msra",
        f"initial weights: {' | '.join(INITIALIZERS)}, with numbers as in normal:sigma=0.01; or module:callable",
    )
    zero_gamma: bool = flag(False, "residual branches begin as zero: their last norm's scale does")
    pretrained: str = flag(
        "",
        "weights to begin with: a .params file, a run folder or a checkpoint; what does not fit is left out",
    )
    prune: float = flag(
        0.0, "take this share out of the --pretrained net, as in 0.5, and train what is left; 0: off"
    )
    prune_by: str = flag(
        "channel",
        "what --prune takes out: channel (of convolutions and dense layers, which get smaller and faster) | weight "
        "(single weights become 0 and stay so)",
    )
    teacher: str = flag("", "a run folder or checkpoint whose net this one learns from too (distillation)")
    freeze: str = flag(
        "", "parameters that stay as they are: patterns of their names, as in 'conv1.*,layer[12].*'"
    )
    remat: bool = flag(False, "less memory, more time: activations are computed again in the backward pass")
    loss: str = flag(
        "",
        "training loss: cross_entropy | binary_cross_entropy | focal:gamma=2 | arcface:scale=64,margin=0.5 | "
        "cosface:scale=64,margin=0.35, of numbers l1 | l2 | huber:delta=1; or module:callable; left out: cross_entropy "
        "of classes, l2 of numbers",
    )
    head_chunk: int = flag(
        0,
        "compute the last layer so many classes at a time, each chunk a parameter of its own, and never all logits; "
        "for very many classes; 0: as a whole",
    )
    head_classes: int = flag(
        0,
        "with --head-chunk: learn from so many classes a step, those of a micro-batch's samples and others drawn anew; "
        "0: from all",
    )
    class_weights: str = flag(
        "none",
        "how much each class counts in the training loss: none | auto (rare ones more) | a number for each, as in "
        "1,2.5 | a FILE of names and numbers",
    )
    aux_weight: float = flag(
        0.5,
        "how much the loss of the auxiliary head of a net of pixels counts beside its own; 0: build none",
    )
    amp: str = flag("off", "mixed precision: off | bf16 (CPU) | auto (bf16 where it pays) | fp16 (GPU)")
    amp_table: str = flag(
        "", "what pays in bf16: a file that doctor --measure-bf16 wrote; left out: a table of CPUs measured"
    )
    loss_scale: str = flag(
        "auto",
        "loss scale, divided out of the gradients again: a number | dynamic | auto (dynamic for fp16, else none)",
    )

    def __post_init__(self) -> None:
        """Fill in what the task takes where a flag is left out."""
        defaults = tasks.defaults_of(self.task)
        for name, of_task in (("model", defaults.model), ("loss", defaults.loss)):
            if not getattr(self, name):
                object.__setattr__(self, name, of_task)
