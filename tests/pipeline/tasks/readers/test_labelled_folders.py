"""Folders of texts by class, as IMDB's."""

from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import LabeledText
from tests.pipeline.tasks.readers.reading import items_of, reader_of, reasons

IMDB = {"label": "folder", "no_label": ["unsup"]}


def folder_of(folder: Path, *texts: tuple[str, str]) -> Path:
    """Write the texts of names CLASS/FILE; return the first file."""
    for name, text in texts:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    return sorted(folder.glob("*/*.txt"))[0]


def test_the_folder_is_the_class(tmp_path: Path) -> None:
    texts = [("pos/1_9.txt", "A good film.<br />\n"), ("neg/0_2.txt", "\ufeffBad."), ("unsup/0_0.txt", "Unknown.")]
    first = folder_of(tmp_path / "train", *texts, ("pos/notes.md", "no text"))
    (tmp_path / "train" / "labeledBow.feat").write_text("0 0:1")
    reader = reader_of("labelled", task="imdb", **IMDB)
    options = reader.complete_options({"train": first})
    assert options.classes == ["neg", "pos"]
    reader = reader_of("labelled", task="imdb", **IMDB, classes=["neg", "pos"])
    items = items_of(reader, first)
    assert items[:2] == [LabeledText(("Bad.",), 0, None, 0), LabeledText(("A good film.<br />",), 1, None, 1)]
    assert reasons(items) == {"no_label": 1}
    assert [path.name for path in reader.open(first).others] == ["0_2.txt", "1_9.txt", "0_0.txt"]


def test_every_other_file_has_a_reason(tmp_path: Path) -> None:
    first = folder_of(tmp_path, ("a/1.txt", " "), ("b/2.txt", "good"), ("c/3.txt", "other"))
    (tmp_path / "b" / "4.txt").write_bytes(b"caf\xe9")
    items = items_of(reader_of("labelled", label="folder", classes=["a", "b"]), first)
    assert reasons(items) == {"empty_text": 1, "bad_utf8": 1, "bad_label": 1}
    assert items[-1].detail.startswith("the column folder holds 'c', the classes are a, b")


def test_one_class_is_none(tmp_path: Path) -> None:
    first = folder_of(tmp_path / "train", ("pos/1.txt", "good"), ("unsup/1.txt", "text"))
    with pytest.raises(ConfigurationError, match=r"train/pos/1\.txt: expected 2 or more classes .* got pos"):
        reader_of("labelled", **IMDB).complete_options({"train": first})
