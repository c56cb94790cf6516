"""Books are split at their chapters, whatever file holds them."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet
import pytest

from clozeline.pipeline.ingest.documents.chapters import ChapterSplit
from tests.pipeline.clean.cleaning import run_clean

BOOK = "A Novel\n\nCHAPTER I\nIt begins, déjà vu. CHAPTER is a word.\n\nCHAPTER II\nEnd.\n"
PARTS = ["A Novel", "CHAPTER I\nIt begins, déjà vu. CHAPTER is a word.", "CHAPTER II\nEnd."]


@pytest.mark.parametrize(
    ("keys", "chapters"),
    [
        ({"pattern": "^CHAPTER "}, 3),
        ({"pattern": "^CHAPTER ", "min_words": 4}, 1),
        ({"pattern": "^CHAPTER ", "min_words": 3}, 2),
        ({"pattern": "^NOTHING "}, 1),
        ({"pattern": "x*"}, 1),
    ],
)
def test_chapters_are_the_book_and_each_offset_leads_to_its_own(keys, chapters):
    found = list(ChapterSplit(**keys).iter_chapters(BOOK))
    assert len(found) == chapters
    assert "".join(text for _, text in found) == BOOK
    assert all(BOOK.encode()[offset:].startswith(text.encode()) for offset, text in found)


def _write_csv(path):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text"], [BOOK], [BOOK]])


WRITERS = {
    "a.txt": lambda path: path.write_text(BOOK, encoding="utf-16"),
    "a.html": lambda path: path.write_text(
        "<html><body><article>"
        + "".join(f"<p>{line}</p>" for line in BOOK.split("\n") if line)
        + "</article></body>",
        encoding="utf-8",
    ),
    "a.jsonl": lambda path: path.write_text(f"{json.dumps({'text': BOOK})}\n" * 2),
    "a.csv": _write_csv,
    "a.parquet": lambda path: pa.parquet.write_table(pa.table({"text": [BOOK, BOOK]}), path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_reader_gives_chapters_with_uids_of_their_own(tmp_path, name):
    WRITERS[name](tmp_path / name)
    split = {"pattern": "^CHAPTER "}
    source = [{"path": str(tmp_path / name), "split": split, "language": "en"}]
    done = run_clean(source, tmp_path / "out", {"filters": []})
    books = 1 if name in ("a.txt", "a.html") else 2
    lines = [[line for line in document.text.split("\n") if line] for document in done.documents]

    assert lines == [part.split("\n") for part in PARTS] * books
    assert (
        len({document.uid for document in done.documents})
        == 3 * books
        == done.counts["documents_in"]
    )
