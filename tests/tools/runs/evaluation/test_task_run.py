from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.files import file_hash
from clozeline.pipeline.shards.manifest import canonical_sha256, manifest_text
from clozeline.tools.runs.data.run_sets import SetPaths
from clozeline.tools.runs.evaluation.task_run import open_task_run
from tests.distributed import RankPool
from tests.pipeline.task_files import make_sets
from tests.tools.runs.evaluation.task_runs import tuned_run


@pytest.fixture(scope="module")
def tuned(one_rank: RankPool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tuned_run(one_rank, tmp_path_factory.mktemp("tuned"))


def test_a_run_and_its_split(tuned: Path) -> None:
    opened = open_task_run(tuned, "dev")
    assert (opened.facts.name, opened.head, opened.seed) == ("sst2", "classification", 7)
    assert (len(opened.shards), len(opened.train)) == (21, 60)
    assert opened.checkpoint == file_hash(tuned / "checkpoints" / "step-00000006" / "checkpoint.json")


def test_a_split_that_is_not_there(tuned: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"split=test: .* holds no such split, but dev, train"):
        open_task_run(tuned, "test")


def test_sets_that_moved_are_named(tuned: Path, tmp_path: Path) -> None:
    run = shutil.copytree(tuned, tmp_path / "run")
    sets = shutil.copytree(tuned.parent / "out" / "tasks" / "sst2", tmp_path / "moved")
    opened = open_task_run(run, "dev", set_paths=SetPaths(shards=sets / "train"))
    assert (opened.shards.path.parent, opened.train.path.parent) == (sets / "dev", sets / "train")
    config = run / "config.yaml"
    text = config.read_text(encoding="utf-8").replace(str(tuned.parent / "out"), str(tmp_path / "gone"))
    config.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"gone/tasks/sst2: no such folder.* data\.shards=MANIFEST"):
        open_task_run(run, "dev")


def test_a_run_for_other_classes(tuned: Path, tmp_path: Path) -> None:
    """The run's classes are those of its checkpoint, whatever config.yaml says now."""
    sets = shutil.copytree(tuned.parent / "out" / "tasks" / "sst2", tmp_path / "sst2")
    manifest = sets / "dev" / "manifest.json"
    plain = json.loads(manifest.read_text(encoding="utf-8"))
    plain["objective"]["options"]["task"]["labels"] = ["1", "0"]
    del plain["checksum"]
    plain["checksum"] = canonical_sha256(plain)
    manifest.write_text(manifest_text(plain), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"was trained for the classes 0, 1, .* has 1, 0"):
        open_task_run(tuned, "dev", sets)


def test_a_split_of_another_tokenizer(tuned: Path, tmp_path: Path) -> None:
    other = make_sets(tmp_path, "tokenizer.specials={mask: film}")
    with pytest.raises(ConfigurationError, match="was made with the tokenizer"):
        open_task_run(tuned, "dev", other)
