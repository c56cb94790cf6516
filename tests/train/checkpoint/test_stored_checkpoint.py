"""The checkpoint that a start takes, the weights in it, and the checkpoints that stay."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from clozeline.errors import CheckpointError, ConfigurationError, NewerFormatError, RemoteRankError
from clozeline.files import file_hash
from clozeline.train.checkpoint.retention import prune, remove
from clozeline.train.checkpoint.stored_checkpoint import (
    LATEST,
    FileRecord,
    Index,
    ParameterRecord,
    StoredCheckpoint,
    candidates,
    choose_valid,
    find_newest,
    part_name,
)
from clozeline.train.configuration.checkpoint import CheckpointConfig
from tests.train.checkpoint.test_format import write_parts

NAMES = ["step-00000012", "step-00000008", "step-00000004"]
UNSHARDED = object()


def folders(directory, latest=None):
    for name in [*NAMES, "step-backup", "step-00000099.tmp"]:
        (directory / name).mkdir()
    if latest is not None:
        (directory / LATEST).write_bytes(latest)
    return directory


@pytest.mark.parametrize(
    ("latest", "order", "ignored"),
    [
        (b"step-00000004\n", [2, 0, 1], ""),
        (b"step-00000016\n", [0, 1, 2], "it names 'step-00000016', which is not there"),
        (b"\xff\xfe", [0, 1, 2], "it cannot be read"),
        (None, [0, 1, 2], "it cannot be read"),
    ],
)
def test_latest_comes_first_then_the_newest(tmp_path, latest, order, ignored):
    names, why = candidates(folders(tmp_path, latest))
    assert names == [NAMES[number] for number in order]
    assert ignored in why
    assert bool(ignored) == bool(why)


def test_an_empty_directory_has_none_and_nothing_to_say(tmp_path):
    assert candidates(tmp_path) == candidates(tmp_path / "nowhere") == ([], "")
    assert find_newest(tmp_path, lambda name, why: pytest.fail(why)) is None


@given(st.lists(st.sampled_from(["whole", "damaged", "lost peer"]), max_size=4))
def test_the_first_whole_one_is_taken_and_those_before_are_named(states):
    refused = []
    tried = []
    names = [f"step-{number:08d}" for number in range(len(states))]

    def check(path):
        tried.append(path.name)
        state = states[names.index(path.name)]
        if state == "whole":
            return UNSHARDED
        raise (
            CheckpointError(f"{path.name} is torn")
            if state == "damaged"
            else RemoteRankError(f"{path.name} on rank 1", 65)
        )

    def look():
        return choose_valid(Path("c"), names, check, lambda name, why: refused.append((name, why)))

    if "whole" in states:
        first = states.index("whole")
        assert look() is UNSHARDED
        assert tried == names[: first + 1]
        assert [name for name, _ in refused] == names[:first]
        assert all(name in why for name, why in refused)
    elif states:
        with pytest.raises(
            CheckpointError, match=f"holds {len(states)} checkpoints, none of them is valid"
        ) as error:
            look()

        assert not refused, "the error says it all"
        assert str(error.value).splitlines()[1:] == [
            f"  {name} is torn" if state == "damaged" else f"  {name} on rank 1"
            for name, state in zip(names, states, strict=True)
        ]
    else:
        assert look() is None


@pytest.mark.parametrize(
    "error", [NewerFormatError("newer"), RemoteRankError("newer", NewerFormatError.exit_code)]
)
def test_a_checkpoint_of_a_newer_version_ends_the_search(error):
    def check(path):
        raise error

    with pytest.raises(type(error), match="newer"):
        choose_valid(Path("c"), NAMES, check, lambda name, why: pytest.fail(why))


def write_step(run, step):
    """A checkpoint whose one parameter has as many elements as steps are done."""
    folder = run / "checkpoints" / f"step-{step:08d}"
    folder.mkdir(parents=True)
    replace(write_parts(folder, step, 2), state={"step": step, "samples": step}).write(folder)
    (folder.parent / "latest").write_text(f"{folder.name}\n")
    return folder


def test_the_newest_or_the_one_asked_for(tmp_path):
    with pytest.raises(ConfigurationError, match="is not a run directory with checkpoints"):
        StoredCheckpoint.find(tmp_path)
    for step in (3, 5):
        write_step(tmp_path, step)

    assert StoredCheckpoint.find(tmp_path).read_weights()["family.p"].tolist() == [0, 1, 2, 3, 4]
    assert StoredCheckpoint.find(tmp_path, 3).read_weights()["family.p"].tolist() == [0, 1, 2]

    with pytest.raises(ConfigurationError, match="no checkpoint of step 7, only of 3, 5"):
        StoredCheckpoint.find(tmp_path, 7)


def test_averages_are_read_where_there_are_some(tmp_path):
    """A parameter without them, such as a frozen one, has its weight."""
    folder = tmp_path / "checkpoints" / "step-00000001"
    folder.mkdir(parents=True)
    path = folder / part_name(0)
    save_file(
        {
            "weight/family.w": torch.ones(4),
            "average/family.w": torch.full((4,), 3.0),
            "weight/family.frozen": torch.zeros(4),
        },
        path,
    )

    kinds = {
        "family.w": ("decay", ["average", "weight"]),
        "family.frozen": ("frozen", ["weight"]),
    }
    records = {
        name: ParameterRecord([2, 2], group, keys, [(0, 0, 4)])
        for name, (group, keys) in kinds.items()
    }
    files = {path.name: FileRecord(path.stat().st_size, file_hash(path))}
    Index({"step": 1, "samples": 1}, {}, records, [], files).write(folder)
    found = StoredCheckpoint.find(tmp_path).read_weights()

    assert torch.equal(found["family.w"], torch.full((2, 2), 3.0))
    assert torch.equal(found["family.frozen"], torch.zeros(2, 2))


LOSSES = {
    1: 0.9,
    2: math.nan,
    3: 0.1,
    4: 0.8,
    5: 0.7,
    6: None,
    7: 0.6,
    9: 0.05,
}


def written(folder):
    for step, loss in LOSSES.items():
        (folder / f"step-{step:08d}").mkdir()
        Index(
            {"step": step, "samples": step, "heldout_loss": loss},
            {},
            {},
            [],
            {},
        ).write(folder / f"step-{step:08d}")

    (folder / "step-backup").mkdir()
    return folder


@pytest.mark.parametrize(
    ("keep_last", "keep_every", "keep_best", "refused", "kept"),
    [
        (1, None, False, (), {7, 9}),  # 9 is later than the newest of this run: left to be replaced
        (1, 2, False, (), {2, 4, 6, 7, 9}),
        (1, None, True, (3,), {7, 9}),
        (2, None, False, (6,), {5, 7, 9}),
        (1, 2, True, (4,), {2, 3, 6, 7, 9}),
    ],
)
def test_what_stays(tmp_path, keep_last, keep_every, keep_best, refused, kept):
    config = CheckpointConfig(keep_last=5, keep_every=keep_every, keep_best=keep_best)
    prune(
        written(tmp_path),
        "step-00000007",
        keep_last,
        config,
        {f"step-{step:08d}" for step in refused},
    )

    left = {path.name for path in tmp_path.iterdir()}

    assert left == {"step-backup", *(f"step-{step:08d}" for step in kept)}


@pytest.mark.parametrize("refused", [(), ("step-00000003",)])
def test_what_cannot_be_read_now_stays(tmp_path, refused):
    """It may be the best, as it is here."""
    unread = written(tmp_path) / "step-00000003"
    (unread / "checkpoint.json").write_bytes(b"")
    prune(tmp_path, "step-00000007", 1, CheckpointConfig(keep_best=True), refused)
    assert unread.exists()


def test_removal_hides_first(tmp_path, monkeypatch):
    """A kill after the rename leaves a folder that no start takes for a checkpoint."""
    folder = written(tmp_path)
    monkeypatch.setattr("clozeline.train.checkpoint.retention.shutil.rmtree", lambda *_, **__: None)
    remove(folder / "step-00000003")

    assert not (folder / "step-00000003").exists()
    assert (folder / ".tmp-old-step-00000003" / "checkpoint.json").exists()

    remove(folder / "step-00000009" / "checkpoint.json")
    remove(folder / "step-00000099")


def test_the_best_of_early_stopping_and_the_first_at_or_after_a_number_of_tokens_stay(tmp_path):
    """Step 3 has exactly 300 tokens.

    450 and 451 tokens are first passed by step 5, which has 500. The steps 7 and 8 were skipped, so
    6 is the last one that counts.
    """
    for step in range(1, 9):
        state = {"step": step, "tokens": 100 * step, "best": {"step": 2}}
        state["skipped_in_a_row"] = max(0, step - 6)
        (tmp_path / f"step-{step:08d}").mkdir()
        Index(state, {}, {}, [], {}).write(tmp_path / f"step-{step:08d}")

    config = CheckpointConfig(keep_last=1, at=("300 tokens", "450 tokens", "451 tokens"))
    prune(tmp_path, "step-00000008", 1, config, ())

    assert sorted(path.name[-1] for path in tmp_path.iterdir()) == ["2", "3", "5", "6", "8"]


def test_the_best_checkpoint_is_opened_by_its_heldout_loss(tmp_path, capsys):
    """The newest one has no loss, the first one that of another held-out set; without any loss the
    error says how to get one."""
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()

    for step, loss in ((2, 1.5), (4, 2.5), (8, 2.25), (12, 3.0), (16, None)):
        path = checkpoints / f"step-{step:08d}"
        path.mkdir()
        state = {"step": step, "samples": 8 * step, "heldout_loss": loss}
        state["heldout_sets"] = {"heldout": "other" if step == 2 else "own"}
        Index(state, {}, {}, [], {}).write(path)

    assert StoredCheckpoint.find(tmp_path, "best").folder.name == "step-00000008"
    assert not capsys.readouterr().err

    (checkpoints / "step-00000008" / "checkpoint.json").write_bytes(b"")

    assert StoredCheckpoint.find(tmp_path, "best").folder.name == "step-00000004"
    assert "step-00000008 is not used" in capsys.readouterr().err
    assert StoredCheckpoint.find(tmp_path).folder.name == "step-00000016"

    for step in (4, 8, 12):
        shutil.rmtree(checkpoints / f"step-{step:08d}")
    with pytest.raises(ConfigurationError, match=r"evaluate\.every"):
        StoredCheckpoint.find(tmp_path, "best")
