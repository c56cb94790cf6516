from __future__ import annotations

import gzip
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


def test_joined_lines_of_two_files(tmp_path: Path) -> None:
    """As `paste` joins them: a tab of a text, or a line without a partner, costs its own row."""
    text = b" Hello!\tHallo!\n\tleer\n \tleer\nTwo.\tZwei.\xff\na\tb\tc\nThree.\t\n"
    (tmp_path / "train.tsv.gz").write_bytes(gzip.compress(text))
    reader = reader_of("text_to_text", columns=["en", "de"], source="en", target="de", prefix="to German: ")
    items = items_of(reader, tmp_path / "train.tsv.gz")
    assert items[0] == SourceTarget(" Hello!", ("Hallo!",), "to German: ", 0)
    assert reasons(items) == {"empty_text": 3, "bad_utf8": 1, "fields": 1}
    assert [item.index for item in items] == list(range(6))


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
