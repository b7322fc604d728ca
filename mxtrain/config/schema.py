"""The description of a run: frozen dataclasses, whose fields are flags, and the run as flat values and as YAML.

Owns the names and defaults of every flag of `mxtrain.fit`. A field `batch_size` is the flag `--batch-size` and the YAML
key `batch_size`. Parsing is `config/flags/parsing.py`'s; values are checked by `config/checks/bounds.py` and
`config/checks/run_checks.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional, Union

from mxtrain.config.components import choices
from mxtrain.config.values import sizes


def flag(default: Any, help: str) -> Any:
    """Return a dataclass field with the text that --help prints for it."""
    return dataclasses.field(default=default, metadata={"help": help})


@dataclasses.dataclass(frozen=True)
class Data:
    """Input: files, decoding, augmentation."""

    train: Optional[str] = flag(
        None,
        "the .rec file to train on, several joined by commas, a pattern, or module:callable that gives a Gluon Dataset "
        "or a stream",
    )
    val: Optional[str] = flag(None, "what to evaluate on after each epoch: as --train, but no DataLoader")
    target: str = flag(
        "",
        "of a table or file of arrays: the columns that are to be predicted, joined by commas; left out: target, "
        "label, y or class",
    )
    inputs: str = flag(
        "", "of a table: the columns that the net takes, joined by commas; left out: all others"
    )
    exclude: str = flag("", "of a table: columns that are left out, joined by commas")
    categories: str = flag(
        "",
        "of a table: columns of categories, words or numbers, each of which is an input of its own (one-hot)",
    )
    missing: str = flag(
        "refuse",
        "of a table: what an empty cell or NaN becomes: refuse (it ends the run) | mean (of its column in the "
        "training set) | a number; in the latter two an input beside the column says where one is missing",
    )
    sample_weight: str = flag(
        "",
        "how much each sample counts in the loss: a column of a table, or a number beside what is to be predicted, by "
        "its name or as last; left out: all alike, or as the records were packed",
    )
    sampling: str = flag(
        "once",
        "samples of an epoch: once (each sample once) | balanced (as many samples, each class as often)",
    )
    image_size: Union[int, str] = flag(  # noqa: UP007  # Python 3.8 evaluates it
        224, "height and width of the pictures that the net sees, or HEIGHTxWIDTH, as in 224x320"
    )
    val_resize: int = flag(0, "short side before the centre crop in evaluation; 0: image_size / 0.875")
    channels: int = flag(3, "of the pictures that the net sees: 3 (colours) or 1 (grey)")
    augment: str = flag(
        "",
        "augmentations joined by +, as in pad_crop:pad=2+flip or, of text, mask_spans:p=0.1; or none; or "
        "module:callable; or auto: what suits the number and the size of the training pictures; left out: auto of "
        "pictures' classes, none of numbers, which may not stay true, and of text",
    )
    mixup: float = flag(0.0, "mix each picture with another, by a share from Beta(ALPHA, ALPHA); 0: off")
    cutmix: float = flag(
        0.0, "put a box of another picture into each, its area from Beta(ALPHA, ALPHA); 0: off"
    )
    mean: str = flag(
        "imagenet",
        "what is subtracted from pixels of 0 to 1: imagenet | auto (the training set's) | numbers, as in 0.5,0.5,0.5",
    )
    deviation: str = flag("imagenet", "what they are divided by then: as --mean")
    normalize: str = flag(
        "auto",
        "where pixels are normalised: host (the loader) | device | auto (on a GPU, not on a CPU)",
    )
    loader: str = flag("auto", "what decodes: threads | processes | auto (threads, unless more than 8 cores)")
    loader_workers: str = flag("auto", "number of loader workers, or auto: as many as are of use")
    prefetch_mb: int = flag(256, "megabytes of batches that may be ready or being assembled")
    verify: str = flag("always", "when the checksums of records are checked: always | first-epoch | never")
    skip_bad: int = flag(
        0, "this many bad records are replaced by the next good one and counted; one more ends the run"
    )
    cache: str = flag("none", "keep decoded pictures, before augmentation: none | ram | disk")
    cache_dir: str = flag("", "the folder of --cache disk; left out: cache in the run folder")
    num_classes: int = flag(0, "outputs of the net; 0: as many as the data set has classes")
    window: int = flag(256, "tokens of a sample of text")

    def __post_init__(self) -> None:
        """Say the size in the one way in which checkpoints keep it."""
        object.__setattr__(self, "image_size", sizes.plain(self.image_size))


@dataclasses.dataclass(frozen=True)
class Model:
    """The net, its initial weights, its loss and its precision."""

    task: str = flag(
        "classification",
        "what is learnt: classification | multilabel | regression | arrays | lm | sequence_classification | "
        "token_classification; or module:Class",
    )
    model: str = flag(
        "",
        "a net by name: GluonCV's classifiers, small_cnn, small_resnet; of arrays mlp:hidden=128/64, conv1d, lstm; "
        "of text gpt_1m to gpt_1500m, gpt:layers=6,heads=6,width=384, of its classes bilstm, text_cnn, transformer; "
        "or module:callable; left out: the task's (resnet18_v1b of pictures, mlp of arrays, gpt_10m of text)",
    )
    init: str = flag(
        "msra",
        "initial weights: msra | msra_out | xavier | xavier_normal | normal:sigma=0.01 | uniform | "
        "orthogonal; or module:callable",
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
        "training loss: cross_entropy | binary_cross_entropy | focal:gamma=2, of numbers l1 | l2 | huber:delta=1; or "
        "module:callable; left out: cross_entropy of classes, l2 of numbers",
    )
    class_weights: str = flag(
        "none",
        "how much each class counts in the training loss: none | auto (rare ones more) | a number for each, as in "
        "1,2.5 | a FILE of names and numbers",
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
        for name, of_task in (("model", choices.DEFAULT_MODELS), ("loss", choices.DEFAULT_LOSSES)):
            if not getattr(self, name):
                object.__setattr__(self, name, of_task.get(self.task, of_task["classification"]))


@dataclasses.dataclass(frozen=True)
class Layout:
    """Devices and processes that share the computation. None of these changes the loss curve."""

    kvstore: str = flag("device", "where gradients are summed: local | device | dist_sync | dist_async")
    devices: str = flag("cpu", "contexts of this worker: cpu, cpu:0,1 or gpu:0,1")
    num_workers: int = flag(1, "worker processes; more than one needs a dist_* kvstore")
    num_servers: int = flag(1, "server processes of a dist_* kvstore")
    min_workers: int = flag(
        0, "continue with this many workers if others do not join in time; 0: only with all of them"
    )
    start_timeout: float = flag(60.0, "seconds in which all processes of a cluster must have joined")
    silence_timeout: float = flag(10.0, "seconds without a heartbeat after which a process is given up")
    stall_timeout: float = flag(120.0, "seconds without progress after which a worker is given up")
    max_restarts: int = flag(3, "restarts of a cluster in a row without progress in between")
    threads: int = flag(0, "OpenMP threads of an operator; 0: this process's share of the cores")


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
        "constant | cosine | linear | poly | sigmoid | one_cycle | step | multistep | exp | inv, with numbers as in "
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
        "none", "gradients on their way to the servers of dist_sync: none | 2bit, or 2bit:threshold=0.5"
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


@dataclasses.dataclass(frozen=True)
class Output:
    """The run folder, checkpoints and logs."""

    out: str = flag("runs/latest", "the run folder")
    resume: str = flag(
        "auto", "auto: continue from the run folder's newest checkpoint | never | PATH of a checkpoint"
    )
    checkpoint_steps: int = flag(0, "save every so many updates, besides after each epoch; 0: off")
    checkpoint_minutes: float = flag(0.0, "save every so many minutes, besides those; 0: off")
    evaluate_steps: int = flag(
        0, "evaluate every so many updates, besides after each epoch; 0: off; needs --val"
    )
    metric: str = flag(
        "",
        "what evaluations tell besides, joined by commas: of classes topk:k=3 | balanced_accuracy | macro_f1 | "
        "precision | recall | auc | average_precision; of labels auc; of numbers mae | rmse | r2; or module:callable",
    )
    score: str = flag(
        "",
        "the number of an evaluation, as in loss or macro_f1, by which checkpoints are the best and --early-stop ends; "
        "left out: the task's own; needs --val",
    )
    sample_steps: int = flag(
        50,
        "look closely at every so many steps, and at 2, 5, 10, 20: at layers, workers, forward and backward; 0: off",
    )
    keep_last: int = flag(2, "how many of the newest checkpoints are kept")
    keep_best: int = flag(1, "how many of the best checkpoints are kept besides")
    log: str = flag(
        "console", "sinks beside metrics.jsonl, joined by commas: console, tensorboard, wandb, csv; or none"
    )
    profile: str = flag(
        "",
        "write what these steps' time goes into, as in 100:110, as a trace, logs/profile.json in the run folder, and "
        "print the costliest operators and layers",
    )
    dry_run: bool = flag(False, "print the plan and a table of the parameters, and stop")
    plot_schedule: str = flag("", "draw the rate over all steps of the run into this PNG, and stop")
    log_level: str = flag("info", "how much is logged on stderr: debug | info | warning")
    quiet: bool = flag(
        False, "nothing but errors on stderr, and the last line; logs/fit.log has the rest all the same"
    )

    @property
    def sinks(self) -> tuple[str, ...]:
        """The names of the sinks beside metrics.jsonl."""
        unwanted = ("none", "console") if self.quiet else ("none",)
        return tuple(name for name in self.log.split(",") if name not in unwanted)

    @property
    def terminal_level(self) -> str:
        """The level from which on the log goes to stderr."""
        return "error" if self.quiet else self.log_level


@dataclasses.dataclass(frozen=True)
class Run:
    """A whole run, in five sections.

    `explicit` has the flags that somebody has set, in Python, on the command line or in a file, be it to a default:
    they stay, whatever task the data turn out to be of, and are refused where they mean nothing.
    """

    data: Data = Data()
    model: Model = Model()
    layout: Layout = Layout()
    optim: Optim = Optim()
    output: Output = Output()
    explicit: frozenset[str] = dataclasses.field(default=frozenset(), compare=False, repr=False)

    def __post_init__(self) -> None:
        """Fill in what the task takes where --augment is left out."""
        if not self.data.augment:
            augment = choices.DEFAULT_AUGMENTATIONS.get(self.model.task, choices.IMAGENET_AUGMENTATION)
            object.__setattr__(self, "data", dataclasses.replace(self.data, augment=augment))

    @classmethod
    def of(cls, **flags: Any) -> Run:
        """Return the run of these flags, called as on the command line but with underscores: `Run.of(batch_size=32)`.

        UsageError for an unknown flag, with the nearest, and for a value of another type or out of its range.
        """
        from mxtrain.config.flags import from_python

        return from_python.run_of(flags)


# --amp is turned off by `off`, other flags by `none`; each takes both words.
SYNONYMS = {
    ("amp", "none"): "off",
    **{(name, "off"): "none" for name in ("augment", "cache", "class_weights", "compress", "log")},
}

SECTIONS: dict[str, Any] = {
    field.name: type(field.default)
    for field in dataclasses.fields(Run)
    if dataclasses.is_dataclass(field.default)
}


# Values that ask for nothing, which any task and any data can fulfil.
NOTHING = (None, False, 0, "", "none", "off", "once", "auto")


def requested(run: Run) -> frozenset[str]:
    """Return the flags that somebody has set to something, be it to a default."""
    flat = to_flat(run)
    return frozenset(name for name in run.explicit & flat.keys() if flat[name] not in NOTHING)


def flag_names() -> list[str]:
    """Return every flag of fit, in the order of --help."""
    fields = [field.name for section in SECTIONS.values() for field in dataclasses.fields(section)]
    return ["--" + name.replace("_", "-") for name in fields] + ["--config", "--print-config"]


def from_flat(flat: dict[str, Any]) -> Run:
    """Return the run of a flat {name: value}; keys that are no flag are ignored."""
    words = {name: value for name, value in flat.items() if isinstance(value, str)}
    flat = {**flat, **{name: SYNONYMS.get((name, word), word) for name, word in words.items()}}
    return Run(
        **{
            name: section(**{f.name: flat[f.name] for f in dataclasses.fields(section) if f.name in flat})
            for name, section in SECTIONS.items()
        }
    )


def to_flat(run: Run) -> dict[str, Any]:
    """Return {name: value} of all flags, sections flattened; the inverse of `from_flat`."""
    sections = (dataclasses.asdict(getattr(run, name)) for name in SECTIONS)
    return {name: value for section in sections for name, value in section.items()}


def to_yaml(run: Run) -> str:
    """Return the run as YAML that `--config` reads, a section after the other."""
    import yaml

    flat = {name: str(value) if isinstance(value, str) else value for name, value in to_flat(run).items()}
    plain = from_flat(flat)  # an object's text alone: YAML knows no other kinds of text
    return "".join(
        f"# {name}: {section.__doc__}\n{yaml.safe_dump(dataclasses.asdict(getattr(plain, name)), sort_keys=False)}"
        for name, section in SECTIONS.items()
    )
