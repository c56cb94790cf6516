"""The second location of checkpoints: a folder and fsspec's memory, with faults."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import fsspec
import pytest

from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError, StorageError
from clozeline.files import file_hash
from clozeline.train.checkpoint.copies import CheckpointCopies
from clozeline.train.checkpoint.format import Index, steps_in
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.startup.dry_run import dry_run
from tests.distributed import RankPool
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.test_refused_starts import start

LAST = "step-00000006"


def records(run: Path) -> list[Any]:
    return [(one["step"], one["loss"], one["gradient_norm"]) for one in read_lines(run / "metrics.jsonl")]


def events(run: Path, *names: str) -> list[tuple[str, str]]:
    found = read_lines(run / "events.jsonl")
    return [(one["event"], one["checkpoint"]) for one in found if one["event"] in names]


@pytest.fixture(scope="module")
def folder(two_ranks: RankPool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of six steps on two ranks with a second location."""
    folder = tmp_path_factory.mktemp("copied")
    shards = write_masked_sets(folder / "corrupt")
    changes = {"checkpoint__every": 2, "checkpoint__keep_last": 1, "checkpoint__copy_to": str(folder / "second")}
    config = write_config(folder / "train.yaml", shards, folder / "run", **changes)
    assert two_ranks.run(start, config, ["steps=6"]) == [(0, "")] * 2
    return folder


def test_a_copy_has_every_byte(folder: Path) -> None:
    """Of the newest; those that the run removed are removed."""
    here, there = folder / "run" / "checkpoints", folder / "second"
    assert [path.name for path in steps_in(there)] == [path.name for path in steps_in(here)] == [LAST]
    names = sorted(path.name for path in (here / LAST).iterdir())
    assert names == sorted(path.name for path in (there / LAST).iterdir())
    assert all(file_hash(here / LAST / name) == file_hash(there / LAST / name) for name in names)
    assert (there / "latest").read_text() == LAST
    assert (events(folder / "run", "copy") or [None])[-1] == ("copy", LAST)
    assert not events(folder / "run", "copy_failed")


def test_a_lost_disk_costs_no_bit(folder: Path, two_ranks: RankPool, tmp_path: Path) -> None:
    """A run directory that is gone: the run continues from the copy, as one that lost nothing."""
    for name in ("run", "second"):
        shutil.copytree(folder / name, tmp_path / name)
    words = [f"checkpoint.copy_to={tmp_path / 'second'}", "steps=8"]
    straight, lost = tmp_path / "run", tmp_path / "lost"
    assert two_ranks.run(start, folder / "train.yaml", [*words, f"output={straight}"])[0] == (0, "")
    shutil.rmtree(tmp_path / "second")
    shutil.copytree(folder / "second", tmp_path / "second")
    torn = tmp_path / "second" / "step-00000009"  # a copy that was interrupted
    torn.mkdir()
    (torn / "part-00000.safetensors").write_bytes(b"half")
    assert two_ranks.run(start, folder / "train.yaml", [*words, f"output={lost}", "resume=must"])[0] == (0, "")
    assert records(lost) == records(straight)[-2:]
    assert events(lost, "copy_fetched", "copy_refused") == [("copy_refused", "step-00000009"), ("copy_fetched", LAST)]


def test_a_damaged_copy_is_passed_over(folder: Path, tmp_path: Path) -> None:
    told: list[Any] = []
    shutil.copytree(folder / "second", tmp_path / "second")
    part = tmp_path / "second" / LAST / "part-00001.safetensors"
    content = part.read_bytes()
    part.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    copies = CheckpointCopies(tmp_path / "second", lambda event, **fields: told.append((event, fields)))
    assert copies.fetch(tmp_path / "checkpoints") is None
    assert told[0][0] == "copy_refused"
    assert "the file is corrupted" in told[0][1]["reason"]
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_a_place_that_does_not_work_never_ends_a_run(one_rank: RankPool, tmp_path: Path) -> None:
    """Its parent is a file: every copy fails and is told, and the run completes; nor is there anything to fetch."""
    (tmp_path / "file").write_text("no folder")
    changes = {"checkpoint__every": 2, "checkpoint__copy_to": str(tmp_path / "file" / "second")}
    config = write_config(tmp_path / "train.yaml", write_masked_sets(tmp_path / "c"), tmp_path / "run", **changes)
    assert one_rank.run(start, config, ["steps=4"]) == [(0, "")]
    assert ("copy_failed", "step-00000004") in events(tmp_path / "run", "copy", "copy_failed")
    assert not events(tmp_path / "run", "copy")


class Faulty:
    """fsspec's memory, of which one call fails or one upload loses its last byte."""

    def __init__(self, fault: str) -> None:
        self._system, self._fault = fsspec.filesystem("memory"), fault

    def __getattr__(self, name: str) -> Any:
        if name == self._fault:
            raise OSError("the network is down")
        return getattr(self._system, name)

    def put_file(self, source: str, target: str) -> None:
        if self._fault == "put_file":
            raise OSError("the network is down")
        content = Path(source).read_bytes()
        self._system.pipe_file(target, content[:-1] if self._fault == "torn" else content)


@pytest.mark.parametrize("fault", ["put_file", "torn", "makedirs", "pipe_file", "open"])
def test_a_fault_leaves_no_copy_that_looks_complete(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The next try makes it complete, from memory to another folder."""
    told: list[str] = []
    copies = CheckpointCopies(Path(f"memory://{tmp_path.name}-{fault}"), lambda event, **_: told.append(event))
    real = copies._open
    source = folder / "run" / "checkpoints" / LAST
    monkeypatch.setattr(copies, "_open", lambda: (Faulty(fault), real()[1]))
    copies.start(source)
    copies.finish(lambda: None)
    assert told == ["copy_failed"]
    monkeypatch.setattr(copies, "_open", real)
    assert copies.fetch(tmp_path / "none") is None
    copies.start(source)
    copies.finish(lambda: None)
    assert told[-1] == "copy"
    assert copies.fetch(tmp_path / "checkpoints") == LAST
    assert Index.read(tmp_path / "checkpoints" / LAST) == Index.read(source)


def test_a_place_that_cannot_be_read_refuses_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a new run would begin where an old one has its copies."""
    copies = CheckpointCopies(Path("memory://unreadable"), lambda *_, **__: None)
    monkeypatch.setattr(copies, "_open", lambda: (Faulty("isdir"), "/unreadable"))
    with pytest.raises(StorageError, match=r"copy_to: memory://unreadable cannot be read .*network is down"):
        copies.fetch(tmp_path)


def test_a_new_run_never_replaces_the_copies_of_another(folder: Path, one_rank: RankPool, tmp_path: Path) -> None:
    """In a folder and in a store, complete or not; nothing is written. An empty place is taken."""
    before = {path: path.stat().st_mtime_ns for path in (folder / "second").rglob("*")}
    fsspec.filesystem("memory").pipe_file("/of-another/step-00000004/part-00000.safetensors", b"half")
    for place, name in ((folder / "second", LAST), ("memory://of-another", "step-00000004")):
        words = [f"output={tmp_path / 'new'}", f"checkpoint.copy_to={place}", "resume=never"]
        with pytest.raises(ConfigurationError, match=rf"expected a location without .*, got \S+ with {name}: "):
            dry_run(load_config(TrainConfig, folder / "train.yaml", words))
    words = [f"output={tmp_path / 'new'}", "resume=never", "steps=2"]
    ((code, message),) = one_rank.run(start, folder / "train.yaml", words)
    assert (code, f"with {LAST}: choose another location" in message) == (64, True), message
    assert not (tmp_path / "new").exists()
    assert {path: path.stat().st_mtime_ns for path in (folder / "second").rglob("*")} == before
    words += [f"checkpoint.copy_to={tmp_path / 'second'}"]
    assert one_rank.run(start, folder / "train.yaml", words) == [(0, "")]
    assert [path.name for path in steps_in(tmp_path / "second")] == ["step-00000002"]
