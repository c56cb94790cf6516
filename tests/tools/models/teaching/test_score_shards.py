from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
import torch

from clozeline.model.checkpoints import Checkpoint
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.shards import open_shards
from clozeline.tools.models.teaching import score_shards
from clozeline.tools.models.teaching.score_shards import Task, write_shards, writer_of
from clozeline.train.data.sets.stored_scores import StoredScores
from clozeline.train.startup.open_run import Run
from tests.train.compression.distillation.pairs import model
from tests.train.masked_set import write_masked_sets

STORED = StoredScores(source="bert", digest="d", head="masked_lm", k=2, how="top", temperature=1.0, seed=0, batch=32)


def prepare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    """A set of two shards with three blocks each, and a teacher with random weights."""
    made = model()
    tensors = {name: own.detach()[:50] if own.shape[:1] == (53,) else own.detach() for name, own in
               made.named_parameters()}  # fmt: skip
    weights = Run(Path("bert"), Checkpoint(made.config, 50, tensors, {}, None, ()))
    monkeypatch.setattr(score_shards, "open_teacher", lambda *_: weights)
    return Task(Path("bert"), write_masked_sets(tmp_path / "sets", rows=75), tmp_path / "columns", STORED)


def test_blocks_in_quarantine_get_no_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = prepare(tmp_path, monkeypatch)
    name = open_shards(task.shards).manifest.shards[1].path
    entry = [{"shard": name, "block": 0, "reason": "test"}]
    task.shards.with_name("quarantine.json").write_text(json.dumps(entry))
    shards = open_shards(task.shards)
    assert list(write_shards(task, shards, 1)) == [0, 1]
    with pa.OSFile(str(task.output / "shard-00001-of-00002.arrow")) as file:
        blocks = pa.ipc.open_file(file)
        ids = [blocks.get_batch(number)["teacher_ids"] for number in range(blocks.num_record_batches)]
    assert [len(own) for own in ids] == [16, 16, 6]
    assert [len(own.values) > 0 for own in ids] == [False, True, True]


def test_threads_are_those_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shards are written with one thread: sums of several would depend on their number."""
    task, threads = prepare(tmp_path, monkeypatch), torch.get_num_threads()
    shards, parts = open_shards(task.shards), task.part(0).parent
    seen = [(shard, torch.get_num_threads(), list(parts.iterdir())) for shard in write_shards(task, shards, 1)]
    assert seen == [(0, 1, []), (1, 1, [])]  # no intermediate file stays
    assert torch.get_num_threads() == threads
    assert list(write_shards(task, shards, None)) == []
    writer = writer_of(shards, STORED)
    assert all(writer.is_written(Output(task.output), shard) for shard in (0, 1))
    assert [spec.arrow_type for spec in writer.columns] == ["list<uint16>", "list<float16>"]
