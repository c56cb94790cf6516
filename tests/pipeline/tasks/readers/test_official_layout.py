"""What all readers of official layouts share: values of classes, and texts as they stand."""

from __future__ import annotations

import doctest
from pathlib import Path

from clozeline.pipeline.tasks.readers import LabeledText, _official_layout
from tests.pipeline.tasks.readers.reading import items_of, reader_of, reasons, written


def test_examples() -> None:
    assert doctest.testmod(_official_layout).failed == 0


def test_texts_keep_their_white_space(tmp_path: Path) -> None:
    """Unlike texts of columns that a user names: papers score these files as they are."""
    path = written(tmp_path, "sentence\tlabel\n fine film \t1\n \t1\n", "train.tsv")
    items = items_of(reader_of("glue", task="sst2"), path)
    assert items[0] == LabeledText((" fine film ",), 1, None, 1)
    assert reasons(items) == {"empty_text": 1}
    assert items_of(reader_of("labelled", label="label", text="sentence", classes=["0", "1"]), path)[0].texts == (
        "fine film",
    )
