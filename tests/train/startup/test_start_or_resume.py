"""The begin of a run, and a dry run's account of it."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from clozeline.configuration.config import load_config
from clozeline.errors import CheckpointError
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.checkpoint.stored_checkpoint import Index, StoredCheckpoint
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.logs.plan import describe_unfallen_rate
from clozeline.train.logs.report import closing_lines
from clozeline.train.startup.announcements import dry_run
from clozeline.train.startup.fill_in import RULES, Earlier, Start, fill_in
from clozeline.train.startup.start_or_resume import find_starting_point, set_up_kernels
from tests.pages import checked
from tests.refusals import refused
from tests.train.masked_set import write_config
from tests.train.runs import complete, contents, events
from tests.train.synthetic import tiny

HOST = torch.device("cpu")
GPU = torch.device("cuda", 0)
_TOKENIZER = SimpleNamespace(fingerprint="f" * 64, special_ids={})
_TRAIN = SimpleNamespace(path=Path(), manifest=SimpleNamespace(tokenizer=_TOKENIZER))
NO_DATA = SimpleNamespace(
    description="a set", train=_TRAIN, phases=(), heldout={}, heldout_digests={}
)


@pytest.fixture(scope="module")
def trained(one_rank, tmp_path_factory, shards):
    """A run of four steps that were to be its last: a schedule of four steps, down to half of the
    rate."""
    folder = tmp_path_factory.mktemp("trained")
    changes = {"checkpoint__every": 2, "schedule__steps": None, "schedule__final": 0.5}
    config = write_config(folder / "train.yaml", shards, folder / "run", **changes)
    complete(one_rank, config, ["steps=4"])
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "copy")
    return tmp_path / "copy"


def dry(folder, *overrides):
    """Make a dry run; nothing has changed."""
    before = contents(folder)
    words = [f"output={folder / 'run'}", *overrides]

    try:
        return dry_run(load_config(TrainConfig, folder / "train.yaml", words))
    finally:
        assert contents(folder) == before


def test_a_dry_run_shows_what_the_frozen_keys_of_a_run_do(folder, capsys):
    assert dry(folder, "steps=10") == 0

    said = re.sub(r"\n +", " ", capsys.readouterr().out)

    assert "from step-00000004: 4 of 10 steps are done; the schedule ends at 4" in said
    assert "parameters: tokens " in said
    assert "optimizer 0.1 MiB; activations come on top" in said
    assert "the schedule ends at step 4: until step 10 the rate keeps its last value" in said


def test_a_dry_run_a_start_and_the_report_say_what_the_run_does(folder, capsys):
    assert dry(folder, f"output={folder / 'new'}", "steps=4") == 0

    said = " ".join(capsys.readouterr().out.split())
    (start,) = events(folder / "run", "start")
    page = checked((folder / "run" / "report.html").read_text())

    assert {"optimizer", "rate", "schedule", "batch", "precision", "saves"} <= start["plan"].keys()

    for topic, text in start["plan"].items():
        assert f"{topic} {text}" in said
        assert page.cells[page.cells.index(topic) + 1] == text


def test_a_run_that_ends_before_its_schedule_says_how_to_finish(folder, capsys):
    """At a start, and at the end; what it says works."""
    words = ["schedule.steps=40", f"output={folder / 'short'}"]
    before = [*words, "steps=8"]

    assert dry(folder, *before) == 0

    (first,) = re.findall(r"schedule\.steps=\d+$", capsys.readouterr().out, re.MULTILINE)

    assert dry(folder, *before, first) == 0
    assert "before the end of the schedule" not in capsys.readouterr().out

    config = load_config(TrainConfig, folder / "train.yaml", before)
    (line,) = closing_lines(config, TrainState(step=8, samples=64), None)[1:]

    assert line.endswith("steps=40")
    assert (
        describe_unfallen_rate(
            load_config(TrainConfig, folder / "train.yaml", [*words, "steps=40"])
        )
        == ""
    )


def test_a_dry_run_refuses_what_a_start_refuses(folder, capsys):
    with refused("seed: 7 in the checkpoint, 8 now"):
        dry(folder, "seed=8")
    with refused("is not empty"):
        dry(folder, "resume=never")
    newest, before = (folder / "run" / "checkpoints" / f"step-0000000{step}" for step in (4, 2))
    (newest / "checkpoint.json").unlink()

    assert dry(folder) == 0

    said = capsys.readouterr().out

    assert "checkpoint step-00000004 is not used" in said
    assert "resume     from step-00000002" in said

    (before / "part-00000.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="holds 2 checkpoints, none of them is valid"):
        dry(folder)


def test_the_configuration_of_a_run_says_what_its_filled_keys_follow_from(trained):
    text = (trained / "run" / "config.yaml").read_text()
    told = dict(re.findall(r"^# (\S+) follows from (.+)$", text, re.MULTILINE))

    assert told == {key: RULES[key].source for key in told}
    assert {"precision", "schedule.steps"} <= told.keys()  # both open in the configuration
    assert "steps" not in told


@pytest.fixture
def capability(monkeypatch):
    def fake(major, minor=0):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (major, minor))

    return fake


def begin(config, device, saved=None):
    """Find the start of a run; of a run that has begun, `saved` is its first start."""
    before = None if saved is None else saved.config
    start = fill_in(Start(config, config, Earlier(before, before), 1, device))
    start = fill_in(replace(start, datasets=NO_DATA))
    if saved is None:
        return find_starting_point(start, None)
    state = TrainState(
        step=1,
        samples=8,
        frozen=saved.state.frozen,
        shape=saved.state.shape,
        tokenizer=_TOKENIZER.fingerprint,
    )
    index = Index(state.as_dict(), {}, {}, [], {})
    folder = Path("run/checkpoints/step-00000001")
    return find_starting_point(start, StoredCheckpoint(folder, index, state))


def chosen(point):
    config = point.config
    return config.precision, config.compile, config.deterministic


@pytest.mark.parametrize(
    ("major", "changes", "expected"),
    [
        (9, {}, ("bf16", True, False)),
        (7, {}, ("fp32", True, False)),
        (6, {}, ("fp32", False, False)),
        (9, {"zero__stage": 0}, ("fp32", True, False)),
        (9, {"zero__stage": 3}, ("bf16", False, False)),
        (
            9,
            {"precision": "fp32", "compile": False, "deterministic": True},
            ("fp32", False, True),
        ),
    ],
)
def test_a_gpu_gets_what_it_has_and_the_keys_allow(capability, major, changes, expected):
    capability(major)
    point = begin(tiny(**changes), GPU)
    assert chosen(point) == expected
    assert "auto" not in chosen(point)


def test_a_processor_gets_what_it_always_had():
    """No line, and no new key in the checkpoint."""
    point = begin(tiny(), HOST)

    assert chosen(point) == ("fp32", False, True)
    assert point.choices == ()
    assert (point.state.frozen["precision"], sorted(point.state.shape)) == (
        "fp32",
        ["device", "micro_batch", "world_size", "zero_stage"],
    )


@pytest.mark.parametrize(("first", "then"), [(HOST, GPU), (GPU, HOST)])
def test_a_resumed_run_keeps_what_its_first_start_chose(capability, first, then):
    capability(9)
    start = begin(tiny(), first)

    assert chosen(begin(tiny(), first, start)) == chosen(start)

    resumed = begin(tiny(), then, start)

    assert chosen(resumed) == chosen(start)

    values = "precision={}, compile={}, deterministic={}".format(*map(str, chosen(start))).lower()

    assert values in resumed.choices[0]
    assert f"started on {first.type}" in resumed.choices[0]
    assert begin(tiny(compile=False), then, start).config.compile is False


def test_kernels_follow_the_configuration(monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", asked.append)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    before = torch.get_deterministic_debug_mode()

    try:
        set_up_kernels(HOST, "fp32", deterministic=False)
        assert (asked, torch.get_deterministic_debug_mode()) == ([], 0)
        set_up_kernels(GPU, "bf16", deterministic=True)
        assert (asked, torch.get_deterministic_debug_mode()) == ([], 2)
        set_up_kernels(GPU, "fp32", deterministic=True)
        assert (asked, torch.backends.cudnn.allow_tf32) == (["high"], True)
    finally:
        torch.set_deterministic_debug_mode(before)
