"""model.json of an imported folder: written by the tool with the pipeline's add_checksum, read by
the model's own code."""

import json

import pytest

from clozeline.checksummed_json import add_checksum
from clozeline.errors import ClozelineError, IntegrityError, NewerFormatError, WeightsError
from clozeline.model.checkpoints.import_record import (
    IMPORT_RECORD,
    IMPORT_RECORD_FORMAT,
    ImportRecord,
    read_checkpoint_json,
    read_import_record,
)

PLAIN = {
    "format": IMPORT_RECORD_FORMAT,
    "model_type": "bert",
    "vocab_size": 7,
    "token_ids": {"pad_token_id": 0, "é": None},
    "absent": ["heads.masked_lm.bias"],
    "source": "café",
    "files": {"config.json": "0"},
    "weights": "1",
    "tokenizer": "tokenizer",
    "config": "2",
}


def written(folder, plain):
    path = folder / IMPORT_RECORD
    path.write_text(json.dumps(plain), encoding="utf-8")
    return path


def test_what_the_pipeline_seals_is_read(tmp_path):
    assert read_import_record(written(tmp_path, add_checksum(PLAIN))) == ImportRecord(**PLAIN)


def test_a_newer_format_is_refused(tmp_path):
    newer = {**PLAIN, "format": IMPORT_RECORD_FORMAT + 1, "more": 1}
    with pytest.raises(NewerFormatError, match="format 2, this version reads format 1") as found:
        read_import_record(written(tmp_path, add_checksum(newer)))
    assert found.value.exit_code == 64


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {**PLAIN, "vocab_size": "7"},
        {**PLAIN, "more": 1},
        [],
        7,
    ],
)
def test_other_content_is_refused(tmp_path, plain):
    path = written(tmp_path, plain)
    with pytest.raises(ClozelineError, match=f"{path}.*(import the model again|download it again)"):
        read_import_record(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(WeightsError, match="import was not finished"):
        read_import_record(tmp_path / IMPORT_RECORD)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_json_in_another_encoding_is_refused_by_name(tmp_path, encoding):
    (tmp_path / "config.json").write_text('{"é": 1}', encoding=encoding)
    with pytest.raises(IntegrityError, match=r"config\.json"):
        read_checkpoint_json(tmp_path / "config.json")
