"""Flags, YAML and what becomes of them."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from mxtrain import config
from mxtrain.config import batch_plan
from mxtrain.config.checks import bounds, run_checks
from mxtrain.core.errors import UsageError

RUNS_BEFORE = Path(__file__).parents[2] / "golden" / "runs_before"
# Scripts lean on these: adding one is fine (here too), renaming or dropping one is not.
FLAGS = [
    "--train",
    "--val",
    "--pack",
    "--target",
    "--inputs",
    "--exclude",
    "--categories",
    "--lists",
    "--list-separator",
    "--list-length",
    "--shared-embedding",
    "--negatives",
    "--log-columns",
    "--column-names",
    "--missing",
    "--sample-weight",
    "--sampling",
    "--order",
    "--image-size",
    "--val-resize",
    "--channels",
    "--augment",
    "--mixup",
    "--cutmix",
    "--mean",
    "--deviation",
    "--normalize",
    "--loader",
    "--loader-workers",
    "--prefetch-mb",
    "--verify",
    "--skip-bad",
    "--cache",
    "--cache-dir",
    "--storage-cache",
    "--storage-cache-mb",
    "--storage-patience",
    "--num-classes",
    "--window",
    "--task",
    "--model",
    "--init",
    "--zero-gamma",
    "--pretrained",
    "--prune",
    "--prune-by",
    "--teacher",
    "--freeze",
    "--remat",
    "--loss",
    "--head-chunk",
    "--head-classes",
    "--class-weights",
    "--aux-weight",
    "--amp",
    "--amp-table",
    "--loss-scale",
    "--kvstore",
    "--devices",
    "--update",
    "--hold",
    "--stages",
    "--store-dir",
    "--num-workers",
    "--num-servers",
    "--min-workers",
    "--start-timeout",
    "--silence-timeout",
    "--stall-timeout",
    "--max-restarts",
    "--threads",
    "--batch-size",
    "--micro-batch",
    "--accumulate",
    "--optimizer",
    "--lr",
    "--lr-scale",
    "--layer-decay",
    "--momentum",
    "--weight-decay",
    "--decay-all",
    "--lr-base-batch",
    "--schedule",
    "--warmup-epochs",
    "--distill-weight",
    "--distill-temperature",
    "--label-smoothing",
    "--clip-norm",
    "--clip-value",
    "--ema",
    "--average",
    "--sums",
    "--compress",
    "--max-bad-steps",
    "--overfit",
    "--early-stop",
    "--epochs",
    "--epoch-steps",
    "--max-steps",
    "--seed",
    "--out",
    "--mirror",
    "--resume",
    "--checkpoint-steps",
    "--checkpoint-minutes",
    "--evaluate-steps",
    "--metric",
    "--score",
    "--sample-steps",
    "--keep-last",
    "--keep-best",
    "--log",
    "--profile",
    "--dry-run",
    "--plot-schedule",
    "--log-level",
    "--quiet",
    "--config",
    "--print-config",
]


def test_flags_are_a_contract() -> None:
    assert config.flag_names() == FLAGS


def test_defaults_survive_yaml(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(config.to_yaml(config.Run()))
    assert config.read(path) == config.Run()


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("lr: 1e-3\nbatch-size: 16\namp: off\nloader_workers: 2\ntrain: 5\nval: null\n")
    run = config.parse(["--config", str(path), "--batch-size", "8"])
    assert (run.optim.lr, run.optim.batch_size, run.model.amp) == (1e-3, 8, "off")
    assert (run.data.loader_workers, run.data.train, run.data.val) == ("2", "5", None)


def test_words_are_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("log: no\namp: off\nval: 12:30\nout: 007\nresume: 'never'\ntrain: true\n")
    run = config.read(path)
    assert (run.output.log, run.model.amp, run.data.val, run.output.out) == ("no", "off", "12:30", "007")
    assert (run.output.resume, run.data.train) == ("never", "true")
    with pytest.raises(UsageError, match="--log no: unknown"):
        run_checks.check_description(run)


def test_off_and_none_are_one_word(tmp_path: Path) -> None:
    assert config.parse(["--amp", "none"]) == config.parse(["--amp", "off"]) == config.Run()
    for name in ("augment", "cache", "compress", "log"):
        given, meant = (config.parse([f"--{name}", word]) for word in ("off", "none"))
        assert given == meant and config.to_flat(given)[name] == "none"
    path = tmp_path / "run.yaml"
    path.write_text("amp: none\ncache: off\n")
    run = config.read(path)
    assert (run.model.amp, run.data.cache) == ("off", "none")


def test_a_list_is_what_the_flag_joins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        "train: [a.rec, 007]\nval:\n- b.rec\nfreeze: ['conv1.*', fc]\naugment: [pad_crop:pad=2, flip]\n"
    )
    run = config.read(path)
    assert (run.data.train, run.data.val, run.model.freeze) == ("a.rec,007", "b.rec", "conv1.*,fc")
    assert run.data.augment == "pad_crop:pad=2+flip"
    with pytest.raises(SystemExit):
        config.parse(["--config", str(path), "--print-config"])
    path.write_text(capsys.readouterr().out)
    assert config.read(path) == run
    assert config.parse(["--config", str(path), "--train", "c.rec"]).data.train == "c.rec"


def test_a_switch(tmp_path: Path) -> None:
    assert config.parse(["--zero-gamma", "--seed", "1"]).model.zero_gamma
    assert not config.parse(["--zero-gamma", "false"]).model.zero_gamma
    path = tmp_path / "run.yaml"
    path.write_text("zero_gamma: on\n")
    assert config.parse(["--config", str(path)]).model.zero_gamma
    assert not config.parse(["--config", str(path), "--zero-gamma", "false"]).model.zero_gamma


def test_print_config_is_a_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--train", "a.rec", "--lr", "3e-05", "--devices", "cpu:0,1"]
    with pytest.raises(SystemExit) as end:
        config.parse([*arguments, "--print-config"])
    assert end.value.code == 0
    path = tmp_path / "run.yaml"
    path.write_text(capsys.readouterr().out)
    assert config.read(path) == config.parse(arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--bach-size", "4"], ["--bach-size", "--batch-size"]),
        (["--batch-size", "x"], ["--batch-size", "whole number", "'x'"]),
        (["--zero-gamma", "maybe"], ["--zero-gamma", "true or false", "'maybe'"]),
        (["--lr", "fast"], ["--lr", "a number", "'fast'"]),
        (["--batch", "4"], ["--batch", "--batch-size"]),
        (["extra"], ["extra"]),
        (["--decay-all=1"], ["--decay-all"]),
        (["--config", "missing.yaml"], ["missing.yaml", "No such file"]),
    ],
)
def test_wrong_flags_are_named(arguments: list[str], words: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        config.parse(arguments)
    for word in words:
        assert word in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bach_size: 4", ["bach_size", "batch_size"]),
        ("batch_size: many", ["run.yaml: batch_size: expected a whole number, got 'many'"]),
        ("x: [", ["not YAML"]),
        ("- 1", ["batch_size: 64"]),
        ("augment: null", ["augment"]),
        ("decay_all: maybe", ["decay_all", "true or false", "'maybe'"]),
        ("train: [a.rec, [b.rec]]", ["run.yaml: train: a list of strings"]),
        ("train: ['a,b.rec', c.rec]", ["run.yaml: train: 'a,b.rec' holds a ','"]),
        ("train: []", ["run.yaml: train is an empty list"]),
        ("val: {a: 1}", ["run.yaml: val: give one string, files joined by commas"]),
        ("augment: [flip, pad_crop+flip]", ["run.yaml: augment: 'pad_crop+flip' holds a '+'"]),
        ("out: [a]", ["run.yaml: out: give one string, and no list"]),
        ("lr: [1]", ["run.yaml: lr: give one value, and no list"]),
        ("lr: 0.1\nseed: 1\nlr: 0.2", ["run.yaml: lr is given twice"]),
        ("batch-size: 1\nbatch_size: 2", ["run.yaml: batch_size is given twice"]),
        ("lr: 2020-13-45", ["not YAML", "month"]),
        ("? [a]\n: b", ["unknown key"]),
        ("lr: !!python/object:os.system x", ["not YAML"]),
    ],
)
def test_wrong_files_are_named(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        config.parse(["--config", str(path), "--batch-size", "8"])
    for word in words:
        assert word in str(refused.value)
    assert "\n" not in str(refused.value)


REFUSED = [
    ("--seed 99999999999", "--seed 99999999999: give 2147483647 or less"),
    ("--stall-timeout 1e30", "--stall-timeout 1e+30: give 604800 or less"),
    ("--silence-timeout 700000", "--silence-timeout"),
    ("--threads 3000000000", "--threads 3000000000: give 1024 or less"),
    ("--kvstore dist_sync --num-workers 100000", "--num-workers 100000: give 1024 or less"),
    ("--kvstore dist_sync --num-servers 100000", "--num-servers 100000: give 1024 or less"),
    ("--image-size 100000", "--image-size 100000: give 4096 or less"),
    ("--num-classes 100000000", "--num-classes 100000000: give 4194304 or less"),
    ("--loader-workers 1025", "--loader-workers 1025: give auto, or a number from 1 to 1024"),
    ("--loader-workers " + 5000 * "9", "--loader-workers"),
    ("--clip-norm 1e-7", "--clip-norm 1e-07: give 1e-06 or more, or 0 for none"),
    ("--clip-value 1e7", "--clip-value 10000000.0: give 1000000.0 or less"),
    ("--weight-decay 1e-300", "--weight-decay 1e-300: give 1e-30 or more, or 0"),
    ("--weight-decay 1e300", "--weight-decay"),
    ("--lr 3e38", "--lr 3e+38: give 1000000000000.0 or less"),
    ("--batch-size 20000 --micro-batch 20000", "--micro-batch 20000: so many pictures of --image-size 224"),
    ("--loss-scale 1e13", "--loss-scale 1e13: give a number from 1e-06 to 1e+12, or one of"),
    ("--loss-scale big", "--loss-scale big"),
    ("--loss-scale 0", "--loss-scale 0"),
    ("--loss-scale inf", "--loss-scale inf"),
    ("--clip-norm -1", "--clip-norm"),
    ("--clip-value nan", "--clip-value"),
    ("--clip-norm 1 --clip-value 1", "--clip-value"),
    ("--ema 1", "--ema"),
    ("--prune 1 --pretrained runs/a", "--prune 1: leaves nothing"),
    ("--prune -0.5", "--prune -0.5: give 0 or more"),
    ("--prune 0.5", "give that as --pretrained"),
    ("--prune 0.5 --pretrained a --prune-by chanel", "channel"),
    ("--prune-by weight", "give --prune too"),
    ("--prune 0.5 --prune-by weight --pretrained a --kvstore dist_async", "servers hold the weights"),
    ("--average 3 --ema 0.9", "--average 3 and --ema 0.9 are two means"),
    ("--average 3 --early-stop 2 --val v.rec", "--average 3 and --early-stop 2"),
    ("--average 3 --kvstore dist_async", "servers hold the weights"),
    ("--max-bad-steps 0", "--max-bad-steps"),
    ("--devices cpu:99999999999", "--devices"),
    ("", "--train"),
    ("--batch-size 0", "--batch-size 0: give 1"),
    ("--micro-batch 65", "--micro-batch 65"),
    ("--accumulate 3 --micro-batch 32", "--accumulate"),
    ("--epochs 0", "--epochs"),
    ("--lr 0", "--lr"),
    ("--lr nan", "--lr"),
    ("--lr inf", "--lr"),
    ("--momentum 1", "--momentum"),
    ("--warmup-epochs 90", "--warmup-epochs"),
    ("--val-resize 200", "--val-resize"),
    ("--keep-last 0", "--keep-last"),
    ("--keep-best -1", "--keep-best"),
    ("--checkpoint-steps -1", "--checkpoint-steps"),
    ("--checkpoint-minutes -1", "--checkpoint-minutes"),
    ("--checkpoint-minutes nan", "--checkpoint-minutes"),
    ("--model resnet18_v1bb", "resnet18_v1b"),
    ("--model no_such_module:net", "no_such_module"),
    ("--optimizer adm", "adam"),
    ("--schedule cosin", "cosine"),
    ("--init zavier", "xavier"),
    ("--init normal:sigma=-1", "--init normal:sigma=-1"),
    ("--loss cross_entropi", "cross_entropy"),
    ("--loss focal:gama=3", "gamma"),
    ("--loss focal:gamma=0.5", "1 to 10"),
    ("--early-stop 3", "--early-stop 3 needs --val"),
    ("--keep-best 2", "--keep-best 2 needs --val"),
    ("--overfit -1", "--overfit -1: give 0 or more"),
    ("--overfit 1 --mixup 0.2", "--mixup"),
    ("--distill-weight 1.5", "--distill-weight 1.5"),
    ("--distill-temperature 0", "--distill-temperature 0"),
    ("--distill-weight 0.3", "no --teacher"),
    ("--distill-temperature 2", "no --teacher"),
    ("--label-smoothing 1", "--label-smoothing 1: give a number below 1"),
    ("--label-smoothing 0.1 --loss focal", "cross_entropy"),
    ("--label-smoothing 0.1 --loss arcface", "cross_entropy"),
    ("--loss arcface:margin=1.6", "--loss arcface:margin=1.6: give 0 to 1.5"),
    ("--loss cosface:scale=0", "--loss cosface:scale=0: give 0.1 to 10000"),
    ("--loss arcface --mixup 0.2", "--mixup 0.2: the margin of --loss arcface"),
    ("--loss cosface --cutmix 1", "--cutmix 1: the margin of --loss cosface"),
    ("--loss arcface --teacher runs/a", "--teacher runs/a: the margin of --loss arcface"),
    ("--amp bf61", "bf16"),
    ("--amp fp16", "--amp bf16"),
    ("--amp bf16 --devices gpu:0", "--amp fp16"),
    ("--task classify", "classification"),
    ("--sums fats", "fast"),
    ("--loader thread", "threads"),
    ("--loader-workers -1", "--loader-workers"),
    ("--augment flipp", "flip"),
    ("--augment flip+", "--augment flip+: a name is missing"),
    ("--out=", "--out is empty"),
    ("--mixup -0.1", "--mixup"),
    ("--cutmix nan", "--cutmix"),
    ("--mixup 1e-9", "--mixup"),
    ("--cutmix inf", "--cutmix"),
    ("--mixup 0.2 --micro-batch 1", "--micro-batch 2"),
    ("--log consle", "console"),
    ("--log console,wandbb", "wandb"),
    ("--log cvs", "run/metrics.jsonl holds every number"),
    ("--kvstore dist_synk", "dist_sync"),
    ("--compress 2bit", "--kvstore device sends nothing"),
    ("--kvstore dist_sync --compress 1bit", "2bit"),
    ("--kvstore dist_sync --compress 2bit:threshold=0", "threshold=0"),
    ("--kvstore dist_sync --compress 2bit --loss-scale 8", "--loss-scale"),
    ("--kvstore dist_sync --num-workers 2 --min-workers 3", "--min-workers 3"),
    ("--kvstore dist_sync --silence-timeout 0", "--silence-timeout 0"),
    ("--kvstore devise", "device"),
    ("--kvstore horovod", "horovod"),
    ("--num-workers 2", "add --kvstore dist_sync, or leave --num-workers out"),
    ("--num-servers 2", "add --kvstore dist_sync, or leave --num-servers out"),
    ("--min-workers 1", "--min-workers 1 needs a dist_* --kvstore"),
    ("--start-timeout 30", "--start-timeout 30 needs a dist_* --kvstore"),
    ("--silence-timeout 30", "--silence-timeout 30 needs a dist_* --kvstore"),
    ("--stall-timeout 30", "--stall-timeout 30 needs a dist_* --kvstore"),
    ("--max-restarts 0", "--max-restarts 0 needs a dist_* --kvstore"),
    ("--plot-schedule rate.png --dry-run", "--plot-schedule and --dry-run"),
    ("--devices tpu", "--devices"),
    ("--devices cpu:0,0", "twice"),
    ("--devices cpu:0,gpu:1", "--devices"),
    ("--resume nowhere", "--resume"),
]


@pytest.mark.parametrize(("flags", "words"), REFUSED)
def test_what_cannot_work_is_refused(tmp_path: Path, flags: str, words: str) -> None:
    train = [] if not flags else ["--train", "t.rec", "--out", str(tmp_path / "run")]
    with pytest.raises(UsageError) as refused:
        run = config.parse([*train, *flags.split()])
        bounds.check(run)
        run_checks.check(run)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists(), "a refused run leaves no folder"


def test_what_a_job_once_began_with_may_have_been_pruned(tmp_path: Path) -> None:
    run_checks.check(
        config.parse(["--train", "t.rec", "--out", str(tmp_path), "--resume", "nowhere"]), begins=False
    )


def test_every_number_has_its_range() -> None:
    defaults = config.to_flat(config.Run())
    numbers = {name for name, value in defaults.items() if type(value) in (int, float)}
    assert numbers == set(bounds.RANGES)
    for name, (least, most) in bounds.RANGES.items():
        is_none = name in bounds.ZERO_IS_NONE and defaults[name] == 0
        assert is_none or least <= defaults[name] <= most, name


def test_roles_need_a_dist_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLC_ROLE", "server")
    with pytest.raises(UsageError, match="DMLC_ROLE=server"):
        run_checks.check(config.parse(["--train", "t.rec", "--out", str(tmp_path)]))


@pytest.mark.parametrize("flag", ["--pretrained", "--teacher"])
@pytest.mark.parametrize(
    "origin", ["run", "run/checkpoints/step-1", "run/../run/checkpoints/step-1/weights.params"]
)
def test_what_would_be_set_aside_is_no_origin(tmp_path: Path, flag: str, origin: str) -> None:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    run = ["--train", "t.rec", flag, str(tmp_path / origin), "--out", str(tmp_path / "run")]
    with pytest.raises(UsageError, match=f"{flag} .*set it aside"):
        run_checks.check(config.parse([*run, "--resume", "never"]))
    run_checks.check(config.parse(run))
    run[3] = str(tmp_path / "run" / "previous-1")
    run_checks.check(config.parse([*run, "--resume", "never"]))


@pytest.mark.parametrize(("sink", "package"), [("tensorboard", "tensorboardX"), ("wandb", "wandb")])
def test_a_sink_that_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sink: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=f"--log {sink} needs {package}: pip install"):
        run = config.parse(["--train", "t.rec", "--out", str(tmp_path / "run"), "--log", f"console,{sink}"])
        run_checks.check(run)
    assert not (tmp_path / "run").exists()


def test_out_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--out"):
        run_checks.check(config.parse(["--train", "t.rec", "--out", str(tmp_path / "file" / "run")]))


def plan(flags: str) -> batch_plan.BatchPlan:
    return batch_plan.of_run(config.parse(flags.split()))


@pytest.mark.parametrize("batch_size", [1, 7, 32, 33, 64, 97, 256])
def test_the_default_cut_does_not_depend_on_the_mapping(batch_size: int) -> None:
    alone = plan(f"--batch-size {batch_size}")
    for devices in ("cpu:0,1", "cpu:0,1,2"):
        spread = plan(f"--batch-size {batch_size} --devices {devices}")
        assert (spread.micro_batch, spread.num_micro_batches) == (alone.micro_batch, alone.num_micro_batches)
    assert alone.micro_batch <= batch_plan.LARGEST_DEFAULT_MICRO_BATCH
    assert (
        (alone.num_micro_batches - 1) * alone.micro_batch
        < batch_size
        <= alone.num_micro_batches * alone.micro_batch
    )


@pytest.mark.parametrize(
    ("batch_size", "num", "before"),
    [(8, 1, 1), (31, 1, 1), (32, 2, 1), (48, 3, 2), (64, 4, 2), (128, 4, 4), (256, 8, 8)],
)
def test_a_small_batch_is_cut_so_that_workers_can_share_it(batch_size: int, num: int, before: int) -> None:
    """Where a part has 16 samples; the cut of earlier versions is known for their runs."""
    assert plan(f"--batch-size {batch_size}").num_micro_batches == num
    assert math.ceil(batch_size / batch_plan.first_default_micro_batch(batch_size)) == before


def test_accumulate_is_derived_or_checked() -> None:
    assert plan("--batch-size 64 --micro-batch 16 --devices cpu:0,1").accumulate == 2
    assert plan("--batch-size 64 --accumulate 4 --devices cpu:0,1").micro_batch == 8
    assert plan("--batch-size 64 --accumulate 2 --micro-batch 16 --devices cpu:0,1").num_micro_batches == 4
    with pytest.raises(UsageError, match="--batch-size 96"):
        plan("--batch-size 64 --accumulate 3 --micro-batch 16 --devices cpu:0,1")


def test_the_number_advised_is_what_leaving_it_out_gives() -> None:
    with pytest.raises(UsageError, match=r"leave --accumulate out \(it is 5\) or give --batch-size 12"):
        plan("--batch-size 10 --accumulate 6 --micro-batch 2")
    assert plan("--batch-size 10 --micro-batch 2").accumulate == 5
    with pytest.raises(UsageError, match="leave --accumulate out or give --batch-size 12"):
        plan("--batch-size 10 --accumulate 6")


def test_a_plan_says_which_replicas_compute_nothing() -> None:
    four = "--devices cpu:0,1,2,3 --batch-size"
    assert "2 of them compute nothing: --micro-batch 10 gives each" in str(plan(f"{four} 40"))
    assert "nothing" not in str(plan(f"{four} 40 --micro-batch 10")) + str(plan(f"{four} 64"))
    assert "--micro-batch 1 gives each" in str(plan(f"{four} 7 --micro-batch 3"))
    assert plan(f"{four} 7 --micro-batch 1").num_micro_batches >= 4
    assert "1 of them compute nothing: a --batch-size of 4 or more" in str(plan(f"{four} 3 --micro-batch 1"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cpu", [("cpu", 0)]),
        ("cpu:1", [("cpu", 1)]),
        ("gpu:0,1", [("gpu", 0), ("gpu", 1)]),
        ("cpu:0,cpu:1", [("cpu", 0), ("cpu", 1)]),
    ],
)
def test_devices(text: str, expected: list[tuple[str, int]]) -> None:
    assert list(batch_plan.parse_devices(text)) == expected


def test_what_was_set_is_known_from_what_was_left_out(tmp_path: Path) -> None:
    """On the command line and in a file of one's own; a run's config.yaml names all flags and cannot tell."""
    default = config.Run()
    by_flags = config.parse(["--image-size", "224", "--skip-bad=0"])
    assert by_flags == config.from_flat(config.to_flat(default)) and by_flags.explicit == {
        "image_size",
        "skip_bad",
    }
    (tmp_path / "own.yaml").write_text("image-size: 224\nlr: 0.5\n")
    by_file = config.parse(["--config", str(tmp_path / "own.yaml"), "--mixup", "0"])
    assert by_file.explicit == {"image_size", "lr", "mixup"}
    (tmp_path / "config.yaml").write_text("# the best of a search\n" + config.to_yaml(by_file))
    assert config.parse(["--config", str(tmp_path / "config.yaml"), "--epochs", "3"]).explicit == {"epochs"}


@pytest.mark.parametrize(
    "path", sorted(RUNS_BEFORE.glob("killed/*/config.yaml")), ids=lambda path: path.parent.name
)
def test_a_config_of_an_earlier_version_cannot_tell_what_was_set(path: Path) -> None:
    assert config.parse(["--config", str(path)]).explicit == set()
