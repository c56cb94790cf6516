"""The small files of a publisher: which are kept, and what they say of the end of a text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tokenize.published import source_files
from clozeline.pipeline.tokenize.published.source_files import SOURCE, copy_source_files, end_ids


def test_small_files_are_kept_and_nothing_else(tmp_path: Path) -> None:
    source, folder = tmp_path / "in", tmp_path / "out"
    kept = ("tokenizer.json", "tokenizer_config.json", "spiece.model", "chat_template.jinja", "generation_config.json")
    for path in (source, folder):
        path.mkdir()
    for name in (*kept, "model.safetensors", "pytorch_model.bin", "modeling_x.py", "README.md", "config.json"):
        (source / name).write_bytes(name.encode())
    copy_source_files(source, folder)
    assert {path.name: path.read_bytes() for path in (folder / SOURCE).iterdir()} == {x: x.encode() for x in kept}


def test_a_file_that_is_no_tokenizer_by_its_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_files, "_LARGEST", 3)
    (tmp_path / "vocab.txt").write_text("abcd", encoding="utf-8")
    (tmp_path / "out").mkdir()
    with pytest.raises(ConfigurationError, match="at most 3 bytes in a tokenizer, got 4"):
        copy_source_files(tmp_path, tmp_path / "out")


@pytest.mark.parametrize(("stated", "ids"), [(None, {7}), (2, {2}), ([2, 5], {2, 5})])
def test_ids_that_end_a_text(tmp_path: Path, stated: object, ids: set[int]) -> None:
    (tmp_path / SOURCE).mkdir()
    (tmp_path / SOURCE / "generation_config.json").write_text(json.dumps({"eos_token_id": stated}), encoding="utf-8")
    assert end_ids(tmp_path, [7]) == ids
    assert end_ids(None, [7]) == {7}
    (tmp_path / SOURCE / "generation_config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="not JSON"):
        end_ids(tmp_path, [7])
