from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import SourceTarget
from tests.pipeline.tasks.readers.reading import items_of, reader_of, reasons, with_data, written


def test_lines_of_two_files(tmp_path: Path) -> None:
    path = written(tmp_path, "Hello!\n\n \nTwo.\nThree.\n", "train.en")
    target = written(tmp_path, b"Hallo!\nleer\nleer\nZwei.\xff\n", "train.de")
    reader = reader_of("bitext", source="en", target="de", prefix="to German: ")
    items = items_of(reader, path)
    assert items[0] == SourceTarget("Hello!", ("Hallo!",), "to German: ", 0)
    assert reasons(items) == {"empty_text": 2, "bad_utf8": 1, "unaligned": 1}
    assert [item.index for item in items] == list(range(5))
    assert reader.companions(path) == (target,)
    assert reader.facts.metrics == ("bleu", "chrf")
    with pytest.raises(ConfigurationError, match=r"expected the file train\.de with the targets"):
        reader.open(written(tmp_path / "..", "a\n", "train.en"))


def test_compressed_files_and_tables(tmp_path: Path) -> None:
    (tmp_path / "dev.source.gz").write_bytes(gzip.compress(b"A long text.\n"))
    (tmp_path / "dev.target.gz").write_bytes(gzip.compress(b"Short.\n"))
    reader = reader_of("bitext", metrics=["rougeLsum"])
    assert items_of(reader, tmp_path / "dev.source.gz") == [SourceTarget("A long text.", ("Short.",), "", 0)]
    items = items_of(reader, written(tmp_path, "a\tb\na\nc\td\te\n\tb\n", "dev.tsv"))
    assert items[0] == SourceTarget("a", ("b",), "", 0)
    assert reasons(items) == {"fields": 2, "empty_text": 1}
    assert reader.companions(tmp_path / "dev.tsv") == ()
    with pytest.raises(ConfigurationError, match="or lines with one tab, got 'a b'"):
        reader.open(written(tmp_path, "a b\n", "dev.txt"))


@pytest.mark.data
@with_data
def test_real_translations() -> None:
    import os

    path = Path(os.environ["CLOZELINE_DATA"]) / "parallel" / "multi30k" / "val.en.gz"
    items = items_of(reader_of("bitext", source="en", target="de"), path)
    assert len(items) == 1014
    assert not reasons(items)
