from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers._json_file import read_whole_json
from tests.pipeline.tasks.readers.reading import written


def test_plain_and_compressed(tmp_path: Path) -> None:
    assert read_whole_json(written(tmp_path, '\ufeff{"a": 1}'), Limits()) == {"a": 1}
    assert read_whole_json(written(tmp_path, gzip.compress(b"[2]")), Limits()) == [2]


@pytest.mark.parametrize(
    ("raw", "message"),
    [(b"{", "cannot be read as JSON"), (b"\xff", "cannot be read"), (gzip.compress(b"[1, 2]")[:-4], "cannot be read")],
    ids=["cut", "bytes", "gzip"],
)
def test_damaged_files(tmp_path: Path, raw: bytes, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_whole_json(written(tmp_path, raw), Limits())


def test_large_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"limits\.decompressed_bytes, 4"):
        read_whole_json(written(tmp_path, "[1, 2, 3]"), Limits(decompressed_bytes=4))
