"""Small files of a published folder: which are kept, and which never are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import TokenizersBackend
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES, tokenizer_class_from_name

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tokenize.published import folders
from clozeline.pipeline.tokenize.published.folders import SOURCE, copy_source_files, end_ids, kept_files


def kept(source: Path, folder: Path) -> set[str]:
    folder.mkdir()
    copy_source_files(source, folder)
    return {str(file) for file in kept_files(folder)}


def test_files_of_every_tokenizer_class_are_kept(tmp_path: Path) -> None:
    found = map(tokenizer_class_from_name, filter(None, TOKENIZER_MAPPING_NAMES.values()))
    classes = [one for one in found if isinstance(one, type) and issubclass(one, TokenizersBackend)]
    names = {name for one in classes for name in (one.vocab_files_names or {}).values()}
    names |= {"additional_chat_templates/rag.jinja", "generation_config.json", "config.json"}
    left = {"model.safetensors", "pytorch_model.bin", "tokenization_own.py", "preprocessor_config.json", "README.md"}
    for name in (*names, *left):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(name)
    assert len(names) > 12
    assert kept(tmp_path / "in", tmp_path / "out") == names


def test_a_link_out_of_the_folder_is_refused_and_one_of_a_hub_cache_is_read(tmp_path: Path) -> None:
    cache = tmp_path / "models--a--b"
    snapshot = cache / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (cache / "blobs").mkdir()
    (cache / "blobs" / "77").write_text("{}")
    (snapshot / "tokenizer.json").symlink_to(Path("../../blobs/77"))
    assert kept(snapshot, tmp_path / "out") == {"tokenizer.json"}
    assert not (tmp_path / "out" / SOURCE / "tokenizer.json").is_symlink()
    (tmp_path / "secret").write_text("key")
    (snapshot / "chat_template.jinja").symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigurationError, match=r"chat_template\.jinja"):
        kept(snapshot, tmp_path / "other")


@pytest.mark.parametrize("stated", ["</s>", [1, "2"], True, [-1], {}, 1.5])
def test_end_ids_that_are_none_are_refused(tmp_path: Path, stated: object) -> None:
    (tmp_path / SOURCE).mkdir()
    (tmp_path / SOURCE / "generation_config.json").write_text(json.dumps({"eos_token_id": stated}))
    with pytest.raises(ConfigurationError, match=r"generation_config\.json"):
        end_ids(tmp_path, [3])


def test_a_file_that_is_no_tokenizer_by_its_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_LARGEST", 3)
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
