from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Rejected, SourceTarget
from tests.pipeline.tasks.readers.reading import items_of, published, reader_of, reasons, with_data, written


def test_nested_fields_and_a_prefix(tmp_path: Path) -> None:
    line = '{"translation": {"en": "Hello!", "de": ["Hallo!", "Servus!"]}}\n'
    reader = reader_of("text_to_text", source="translation.en", target="translation.de", prefix="to German: ")
    items = items_of(reader, written(tmp_path, line))
    assert items == [SourceTarget("Hello!", ("Hallo!", "Servus!"), "to German: ", 0)]
    assert items[0].overlap_texts == ("Hello!",)
    assert (reader.facts.head, reader.facts.metrics) == ("lm", ("exact_match",))


def test_refused_lines(tmp_path: Path) -> None:
    lines = [b'{"source": "a", "target": "b"}', b"", b"[1]", b"{", b'{"source": "a"}', b'{"source": "a", "target": 3}',
             b"\xff", b'{"source": " ", "target": "b"}']  # fmt: skip
    text = b"\n".join(lines)
    items = items_of(reader_of("text_to_text"), written(tmp_path, text))
    assert reasons(items) == {"blank_line": 1, "fields": 4, "bad_utf8": 1, "empty_text": 1}
    assert [item.index for item in items if isinstance(item, Rejected)] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("text", ["", "a\tb\n", '{"source": "a"}\n', "[1]\n"], ids=["empty", "table", "field", "list"])
def test_files_of_another_layout(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"expected (the columns source, target|CSV, TSV, JSON)"):
        reader_of("text_to_text").open(written(tmp_path, text))


def test_lines_of_two_files(tmp_path: Path) -> None:
    path = written(tmp_path, " Hello!\n\n \nTwo.\nThree.\n", "train.en")
    target = written(tmp_path, b"Hallo!\nleer\nleer\nZwei.\xff\n", "train.de")
    reader = reader_of("text_to_text", source="en", target="de", prefix="to German: ")
    items = items_of(reader, path)
    assert items[0] == SourceTarget("Hello!", ("Hallo!",), "to German: ", 0)
    assert reasons(items) == {"empty_text": 2, "bad_utf8": 1, "unaligned": 1}
    assert [item.index for item in items] == list(range(5))
    assert reader.open(path).others == (target,)
    with pytest.raises(ConfigurationError, match=r"expected the file train\.de with the targets"):
        reader.open(written(tmp_path / "..", "a\n", "train.en"))


def test_compressed_files_and_tables(tmp_path: Path) -> None:
    (tmp_path / "dev.source.gz").write_bytes(gzip.compress(b"A long text.\n"))
    (tmp_path / "dev.target.gz").write_bytes(gzip.compress(b"Short.\n"))
    reader = reader_of("text_to_text", columns=["source", "target"])
    assert items_of(reader, tmp_path / "dev.source.gz") == [SourceTarget("A long text.", ("Short.",), "", 0)]
    items = items_of(reader, written(tmp_path, "a\tb\na\nc\td\te\n\tb\n", "dev.tsv"))
    assert items[0] == SourceTarget("a", ("b",), "", 0)
    assert reasons(items) == {"fields": 2, "empty_text": 1}
    assert reader.open(tmp_path / "dev.tsv").others == ()


@pytest.mark.data
@with_data
def test_real_translations() -> None:
    path = Path(os.environ["CLOZELINE_DATA"]) / "parallel" / "multi30k" / "val.en.gz"
    items = items_of(reader_of("text_to_text", source="en", target="de"), path)
    assert len(items) == 1014
    assert not reasons(items)


def test_an_unknown_metric() -> None:
    with pytest.raises(ConfigurationError, match="metrics"):
        reader_of("text_to_text", metrics=["meteor"])


@pytest.mark.data
@with_data
@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("xsum/sample.json", {"source": "document", "target": "summary"}),
        ("wmt_en_ro/val.json", {"source": "translation.en", "target": "translation.ro"}),
    ],
    ids=["xsum", "wmt"],
)
def test_real_files(file: str, options: dict[str, Any]) -> None:
    path = published(f"samples/{file}")
    items = items_of(reader_of("text_to_text", **options), path)
    assert len(items) == len(path.read_text(encoding="utf-8").splitlines())
    assert not reasons(items)
