"""Records of compressed folders; what is written is read back in test_compress.py."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from clozeline.errors import ConfigurationError, IntegrityError, NewerFormatError
from clozeline.files import publish_json
from clozeline.registry import find
from clozeline.sealed_json import seal
from clozeline.tools.models.compression.written_models import (
    RECORD,
    find_claim,
    model_folder,
)
from tests.train.synthetic import plain_config

WRITTEN = {"format": 1, "method": "layers", "options": {"keep": [0]}, "claim": "less", "lines": [], "source": "runs/a"}


def test_a_changed_or_newer_record_is_an_error(tmp_path: Path) -> None:
    publish_json(tmp_path / RECORD, {**seal(WRITTEN), "method": "heads"})
    with pytest.raises(IntegrityError, match="compress the model again"):
        find_claim(tmp_path)
    publish_json(tmp_path / RECORD, seal({**WRITTEN, "format": 2}))
    with pytest.raises(NewerFormatError):
        find_claim(tmp_path)


def test_a_student_leads_to_the_claim_of_its_start(tmp_path: Path) -> None:
    small, student = tmp_path / "small", tmp_path / "student"
    for folder, source in ((small, None), (student, str(small))):
        folder.mkdir()
        model = {"model__init_from": source} if source else {}
        (folder / "config.yaml").write_text(yaml.safe_dump(plain_config(output=str(folder), **model)))
    assert find_claim(student) == ""
    publish_json(small / RECORD, seal(WRITTEN))
    assert find_claim(student) == "layers: less"


def test_a_pruned_run_has_the_claim_of_its_method(tmp_path: Path) -> None:
    pruned = plain_config(output=str(tmp_path), prune={"name": "magnitude", "sparsity": 0.5})
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(pruned))
    assert find_claim(tmp_path) == f"magnitude: {find('clozeline.train.compression.pruning', 'magnitude').claim}"


def test_a_refused_model_leaves_no_output(shard_sets: Path, tmp_path: Path) -> None:
    tokenizer = shard_sets / "train_tokenizer" / "tokenizer"

    def refuse() -> None:
        with model_folder(tmp_path / "out", shard_sets, tokenizer):
            assert (tmp_path / "out" / "tokenizer" / "vocabulary.json").is_file()
            raise ConfigurationError("no such layer")

    with pytest.raises(ConfigurationError, match="no such layer"):
        refuse()
    assert not (tmp_path / "out").exists()
