from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers import LabeledText, TaskReader
from clozeline.registry import choose
from clozeline.tools.runs.evaluation.labeled_texts import read_texts


def _reader(name: str = "labelled", **options: Any) -> TaskReader:
    return choose("clozeline.pipeline.tasks.readers", {"name": name, **options}).build(Limits())


ONE = _reader(text="review", label="stars")
TWO = _reader(text="first", text_pair="second", label="same")


def test_lines_are_texts_and_every_line_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(b"a film\n\n good \na\tb\n\xff\n")
    items, refused = read_texts(path, ONE)
    assert items == [LabeledText(("a film",), None, None, 0), LabeledText(("good",), None, None, 2)]
    assert sum(refused.values()) == 3
    assert (refused["fields"], refused["empty_text"]) == (1, 1)
    assert [item.texts for item in read_texts(path, TWO)[0]] == [("a", "b")]


def test_a_file_without_texts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("a film\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="expected two texts a line, with a tab between them, got none"):
        read_texts(path, TWO)


@pytest.mark.parametrize(
    ("reader", "header", "row", "texts"),
    [
        (ONE, "review", "a film", ("a film",)),
        (ONE, '"review"', "a film", ("a film",)),
        (TWO, "first\tsecond", "a\tb", ("a", "b")),
        (_reader("glue", task="sst2"), "sentence", "a film", ("a film",)),
    ],
)
def test_a_header_is_no_text(tmp_path: Path, reader: TaskReader, header: str, row: str, texts: tuple[str, ...]) -> None:
    path = tmp_path / "texts.tsv"
    path.write_text(f"{header}\n{row}\n{header}\n", encoding="utf-8")
    items, refused = read_texts(path, reader)
    assert items[0].texts == texts
    assert [item.index for item in items] == [1, 2], "below the first line, the same words are a text"
    assert refused == {"header": 1}


def test_a_first_line_with_other_words_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("stars\nreview\n", encoding="utf-8")
    items, refused = read_texts(tmp_path / "texts.txt", ONE)
    assert ([item.texts for item in items], refused) == ([("stars",), ("review",)], {})
