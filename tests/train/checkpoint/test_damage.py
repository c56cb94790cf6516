"""Every file of a checkpoint, damaged in every region: nothing passes, and the newest whole
checkpoint is taken."""

import random
import shutil
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from clozeline.errors import SaveError
from clozeline.train.checkpoint.state import TrainState
from tests.train.checkpoint.test_checkpoints import present, save_again
from tests.train.checkpoint.test_format import reseal
from tests.train.synthetic import build, save, store, tiny, train_steps

SAMPLES = 40
"""Flipped bits in each file."""


def save_trained(world, config, folder):
    engine = build(config, world)
    for step in (1, 2):
        train_steps(engine, step, step)
        save(engine, Path(folder), step)
    engine.close()


def changes(path, others, draw):
    """Yield changed bytes of a file, None for a file that is gone: everywhere, its header and its
    ends too."""
    whole = path.read_bytes()
    places = {
        0,
        7,
        8,
        len(whole) - 1,
        *(draw.randrange(len(whole)) for _ in range(SAMPLES)),
    }
    for at in sorted(places):
        flipped = whole[at] ^ 1 << draw.randrange(8)
        yield f"flip at {at}", whole[:at] + bytes([flipped]) + whole[at + 1 :]

    for size in (0, 1, len(whole) // 2, len(whole) - 1):
        yield f"cut to {size}", whole[:size]
    middle = len(whole) // 2
    yield "zeros", whole[:middle] + bytes(512) + whole[middle + 512 :]
    yield "longer", whole + b"\0"
    yield "gone", None
    for other in others:
        yield f"swapped with {other.parent.name}/{other.name}", other.read_bytes()


def silent(world, folder):
    """Damage each file of step 2 in turn.

    Return what was not noticed, and the number of changes.
    """
    newest, before = (Path(folder) / f"step-0000000{step}" for step in (2, 1))
    draw = random.Random(7)
    passed = []
    count = 0

    for path in sorted(newest.iterdir()):
        whole = path.read_bytes()
        others = [
            before / path.name,
            *(other for other in newest.iterdir() if other.name != path.name),
        ]
        for what, raw in changes(path, others, draw):
            count += 1
            path.unlink() if raw is None else path.write_bytes(raw)
            found = store(Path(folder), world)
            chosen = found.find()
            said = [report["event"] for report in found.reports]
            if chosen is None or chosen.folder != before or said != ["checkpoint_refused"]:
                passed.append(f"{path.name}: {what}")
            path.write_bytes(whole)

    chosen = store(Path(folder), world).find()

    assert chosen.folder == newest, "undamaged it is taken"

    return passed, count


def test_no_damage_is_silent(one_rank, two_ranks, tmp_path):
    two_ranks.run(save_trained, tiny(), str(tmp_path))
    ((passed, count),) = one_rank.run(silent, str(tmp_path))
    assert passed == []
    assert count > 3 * SAMPLES


def found_in(world, folder):
    """Return the name of the checkpoint that is found."""
    chosen = store(Path(folder), world).find()
    return chosen.folder.name


@pytest.mark.parametrize(
    ("changed", "whole"),
    [
        ({}, True),
        ({"step": -1}, False),
        ({"step": 3}, False),
        ({"stream": {"samples": 9}}, False),
    ],
)
def test_a_state_that_contradicts_itself(one_rank, tmp_path, changed, whole):
    one_rank.run(save_again, tiny(), str(tmp_path), [1, 2], {})
    reseal(tmp_path / "step-00000002", lambda plain: plain["state"].update(changed))
    expected = "step-00000002" if whole else "step-00000001"
    assert one_rank.run(found_in, str(tmp_path)) == [expected]


def fill_disk(world, config, folder, keep_last, room):
    """Save on a disk with room for this number of checkpoints.

    Return what is kept after each of five attempts.
    """
    engine = build(config, world)
    found = store(Path(folder), world, keep_last=keep_last)

    assert found.save(engine, TrainState(step=1, samples=1))

    one = size(Path(folder) / "step-00000001")
    real = shutil.disk_usage
    kept = []

    def usage(_path):
        return SimpleNamespace(
            free=max(0, room * one - sum(map(size, Path(folder).glob("step-*"))))
        )

    shutil.disk_usage = usage

    try:
        for step in range(2, 6):
            with suppress(SaveError):  # the third failure in a row
                found.save(engine, TrainState(step=step, samples=step))
            kept.append(present(Path(folder)))
    finally:
        shutil.disk_usage = real
        engine.close()

    return kept


def size(folder):
    return sum(file.stat().st_size for file in folder.iterdir())


@pytest.mark.parametrize(
    ("keep_last", "room", "kept"),
    [
        (3, 3.5, [[1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]),
        (1, 1.5, [[1]] * 4),
    ],
)
def test_a_disk_full_of_its_own_checkpoints(one_rank, tmp_path, keep_last, room, kept):
    """The oldest goes before the save instead of after it; the last whole one never does."""
    assert one_rank.run(fill_disk, tiny(), str(tmp_path), keep_last, room) == [kept]
