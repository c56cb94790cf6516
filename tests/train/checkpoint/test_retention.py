"""The checkpoints that stay, against the rules one by one."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from clozeline.train.checkpoint.format import Index
from clozeline.train.checkpoint.retention import prune, remove
from clozeline.train.configuration.checkpoint import CheckpointConfig

LOSSES = {1: 0.9, 2: math.nan, 3: 0.1, 4: 0.8, 5: 0.7, 6: None, 7: 0.6, 9: 0.05}


def written(folder: Path) -> Path:
    for step, loss in LOSSES.items():
        (folder / f"step-{step:08d}").mkdir()
        Index({"step": step, "samples": step, "heldout_loss": loss}, {}, {}, [], {}).write(folder / f"step-{step:08d}")
    (folder / "step-backup").mkdir()
    return folder


@pytest.mark.parametrize(
    ("keep_last", "keep_every", "keep_best", "refused", "kept"),
    [
        (1, None, False, (), {7, 9}),  # 9 is later than the newest of this run: left to be replaced
        (3, None, False, (), {5, 6, 7, 9}),
        (1, 2, False, (), {2, 4, 6, 7, 9}),
        (1, None, True, (), {3, 7, 9}),
        (1, None, True, (3,), {7, 9}),
        (2, None, False, (6,), {5, 7, 9}),
        (1, 2, True, (4,), {2, 3, 6, 7, 9}),
    ],
)
def test_what_stays(
    tmp_path: Path, keep_last: int, keep_every: int | None, keep_best: bool, refused: tuple[int, ...], kept: set[int]
) -> None:
    config = CheckpointConfig(keep_last=5, keep_every=keep_every, keep_best=keep_best)
    prune(written(tmp_path), "step-00000007", keep_last, config, {f"step-{step:08d}" for step in refused})
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"step-backup", *(f"step-{step:08d}" for step in kept)}


def test_removal_hides_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill after the rename leaves a folder that no start takes for a checkpoint."""
    folder = written(tmp_path)
    monkeypatch.setattr("clozeline.train.checkpoint.retention.shutil.rmtree", lambda *_, **__: None)
    remove(folder / "step-00000003")
    assert not (folder / "step-00000003").exists()
    assert (folder / ".tmp-old-step-00000003" / "checkpoint.json").exists()
    remove(folder / "step-00000009" / "checkpoint.json")
    remove(folder / "step-00000099")


def test_an_index_is_read_once_for_each_time_that_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the index of a checkpoint whose evaluation came later: it is the best then."""
    folder, reads = written(tmp_path), list[str]()
    read = Index.read
    monkeypatch.setattr(Index, "read", lambda path: (reads.append(path.name), read(path))[1])
    config = CheckpointConfig(keep_last=9, keep_best=True)
    for _ in range(3):
        prune(folder, "step-00000009", 9, config, ())
    assert sorted(reads) == [f"step-{step:08d}" for step in LOSSES]
    Index({"step": 6, "samples": 6, "heldout_loss": 0.01}, {}, {}, [], {}).write(folder / "step-00000006")
    prune(folder, "step-00000009", 1, config, ())
    assert reads[len(LOSSES) :] == ["step-00000006"]
    assert {path.name for path in folder.glob("step-0*")} == {"step-00000006", "step-00000009"}
