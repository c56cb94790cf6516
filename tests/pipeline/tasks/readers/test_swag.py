from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Choices, Rejected
from tests.pipeline.tasks.readers.reading import items_of, reader_of, reasons, written

COLUMNS = ["", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source", "ending0", "ending1", "ending2",
           "ending3", "label"]  # fmt: skip


def table(rows: list[list[str]], columns: list[str] = COLUMNS) -> str:
    """Write as pandas does for the authors."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue()


def row(number: int, sent1: str = "A man waits.", label: str = "2") -> list[str]:
    return [str(number), f"v{number % 2}", "7", f"{sent1} He", sent1, "He", "gold", "leaves.", 'says, "no".', "falls.",
            "eats.", label]  # fmt: skip


def test_a_context_and_four_endings(tmp_path: Path) -> None:
    items = items_of(reader_of("swag"), written(tmp_path, table([row(0), row(1, 'One, "two".', "0")])))
    endings = ("He leaves.", 'He says, "no".', "He falls.", "He eats.")
    assert items == [
        Choices("A man waits.", endings, 2, 1, "video v0"), Choices('One, "two".', endings, 0, 2, "video v1")
    ]  # fmt: skip


def test_every_other_row_has_a_reason(tmp_path: Path) -> None:
    """A stray quote costs its own line."""
    lines = [row(0), row(1, label="4"), row(2, " "), row(3)[:-1], row(4, label="")]
    text = table(lines) + '5,v1,7,x,"open,He,gold,a,b,c,d,1\n' + "6,v1,7,x,A,He,gold,a,b,c,d,1\n"
    text += '7,v1,7,x,A,He,gold,a,b,c,d,"1\n'
    items = items_of(reader_of("swag"), written(tmp_path, text))
    assert reasons(items) == {"bad_label": 2, "empty_text": 1, "fields": 3}
    assert [item.index for item in items if not isinstance(item, Rejected)] == [1, 7]
    test = table([row(0)[:-1]], COLUMNS[:-1])
    reader = reader_of("swag")
    file = reader.open(written(tmp_path, test))
    assert not file.layout.has_labels
    assert reasons(list(reader.read(file))) == {"no_label": 1}


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", '"open\n'], ids=["empty", "other", "quote"])
def test_other_files(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match="expected SWAG's header"):
        reader_of("swag").open(written(tmp_path, text))
