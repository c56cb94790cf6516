from __future__ import annotations

from pathlib import Path

from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tasks.readers import TaskFacts, facts_of
from tests.pipeline.task_files import make_sets
from tests.shard_sets import rows, write_set


def test_facts_stand_with_the_set(tmp_path: Path) -> None:
    manifest = open_shards(make_sets(tmp_path) / "dev").manifest
    assert facts_of(manifest) == TaskFacts(
        name="sst2", head="classification", labels=("0", "1"), metrics=("accuracy",), texts=1
    )


def test_other_sets_have_none(tmp_path: Path) -> None:
    assert facts_of(write_set(tmp_path, [rows([1, 2])]).manifest) is None
