from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.execution.unit_record import UnitRecord
from tests.pipeline.task_files import make_sets, open_split, write_recipe, write_task, write_vocabulary


def test_records_hold_the_hash_of_what_was_read(tmp_path: Path) -> None:
    make_sets(tmp_path)
    record = UnitRecord.load(tmp_path / "out" / "tasks", "main", 0)
    assert record is not None
    assert list(record.inputs) == ["default/dev.tsv"]
    assert record.counts["splits"]["dev"]["layout"] == {"official": 1}


def test_files_that_are_no_split_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_task(tmp_path / "files")
    (tmp_path / "files" / "notes.txt").write_text("of the authors", encoding="utf-8")
    make = [f"tokenizer.path={write_vocabulary(tmp_path / 'words')}", f"output={tmp_path / 'out'}"]
    assert main(["--config", str(write_recipe(tmp_path)), f"input={tmp_path / 'files'}", *make]) == 0
    assert "not read, no split by its name: default/notes.txt" in caplog.text
    record = UnitRecord.load(tmp_path / "out" / "tasks", "main", 0)
    assert record is not None
    assert record.counts["files_left"] == {"default/notes.txt": 1}


def test_the_language_of_the_input_stands_in_the_manifest(tmp_path: Path) -> None:
    files = write_task(tmp_path / "files")
    sets = make_sets(tmp_path, f"input={{path: {files}, language: en}}")
    manifest = open_split(sets, "dev").manifest
    assert manifest.languages == ("en",)
    assert manifest.totals.tokens_by_language == {"en": manifest.totals.tokens}
