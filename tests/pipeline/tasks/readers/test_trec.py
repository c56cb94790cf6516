"""TREC's label files, in Latin-1."""

from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import LabeledText
from tests.pipeline.tasks.readers.reading import items_of, reader_of, reasons, written

ROWS = "DESC:manner How did serfdom develop ?\nNUM:count How many caf\xe9s \xf0 ?\nDESC:def What is it ?\n"


@pytest.mark.parametrize(
    ("fine", "classes", "labels"),
    [(False, ["DESC", "NUM"], [0, 1, 0]), (True, ["DESC:def", "DESC:manner", "NUM:count"], [1, 2, 0])],
)
def test_the_type_is_the_class(tmp_path: Path, fine: bool, classes: list[str], labels: list[int]) -> None:
    path = written(tmp_path, ROWS.encode("latin-1"), "train_5500.label")
    options = reader_of("trec", fine=fine).complete_options({"train": path})
    assert options.classes == classes
    items = items_of(reader_of("trec", fine=fine, classes=classes), path)
    texts = ("How did serfdom develop ?", "How many caf\xe9s \xf0 ?", "What is it ?")
    assert items == [
        LabeledText((text,), label, None, index)
        for index, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]  # fmt: skip


def test_every_other_line_has_a_reason(tmp_path: Path) -> None:
    path = written(tmp_path, ROWS.encode("latin-1") + b"ENTY:animal What cat ?\nNUM: How ?\n\nNUM:count \n")
    items = items_of(reader_of("trec", classes=["DESC", "NUM"]), path)
    assert reasons(items) == {"bad_label": 1, "fields": 1, "blank_line": 1, "empty_text": 1}
    assert items[3].detail == "the column type holds 'ENTY', the classes are DESC, NUM"
    assert items[4].detail == "expected a type and a question such as DESC:manner How ..., got 'NUM: How ?'"


@pytest.mark.parametrize(("text", "message"), [("", "got empty file"), ("text,label\n", "got 'text,label'")])
def test_other_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"line 1: expected a type and a question .*{message}"):
        reader_of("trec").open(written(tmp_path, text))
