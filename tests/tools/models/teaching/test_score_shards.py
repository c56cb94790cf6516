import json
from pathlib import Path

import pyarrow as pa

from clozeline.model.checkpoints import Checkpoint
from clozeline.pipeline.shards import open_shards
from clozeline.tools.models.teaching import score_shards
from clozeline.tools.models.teaching.score_shards import Task, write_shards
from clozeline.train.data.sets.stored_scores import StoredScores
from clozeline.train.open_run import Run
from tests.train.compression.distillation.pairs import model
from tests.train.masked_set import write_masked_sets

STORED = StoredScores(source="bert", digest="d", head="masked_lm", k=2, how="top", temperature=1.0, seed=0, batch=32)


def prepare(tmp_path, monkeypatch):
    """A set of two shards with three blocks each, and a teacher with random weights."""
    made = model()
    tensors = {name: own.detach()[:50] if own.shape[:1] == (53,) else own.detach() for name, own in
               made.named_parameters()}  # fmt: skip
    weights = Run(Path("bert"), Checkpoint(made.config, 50, tensors, {}, None, ()))
    monkeypatch.setattr(score_shards, "open_teacher", lambda *_: weights)
    return Task(Path("bert"), write_masked_sets(tmp_path / "sets", rows=75), tmp_path / "columns", STORED)


def test_blocks_in_quarantine_get_no_scores(tmp_path, monkeypatch):
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
