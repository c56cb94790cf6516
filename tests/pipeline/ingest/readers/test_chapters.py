"""Text files are split at their chapters."""

import re

import pytest

from clozeline.pipeline.ingest.readers.text import ChapterSplit
from tests.pipeline.clean.cleaning import run_clean
from tests.refusals import refused

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


def test_chapters_of_a_file_have_uids_of_their_own(tmp_path):
    """Whatever its encoding; a file of another type has no such key."""
    (tmp_path / "a.txt").write_text(BOOK, encoding="utf-16")
    split = {"pattern": "^CHAPTER "}
    source = [{"path": str(tmp_path / "a.txt"), "split": split, "language": "en"}]
    done = run_clean(source, tmp_path / "out", {"filters": []})

    assert [document.text for document in done.documents] == PARTS
    assert len({document.uid for document in done.documents}) == 3 == done.counts["documents_in"]

    keys = {"limits": {"record_bytes": 9}, "on_error": {"malformed": "fail"}}
    with refused(r"files above limits.record_bytes=9 \(1\): ") as refusal:
        run_clean(source, tmp_path / "out", {"filters": []}, **keys)
    keys["limits"]["record_bytes"] = int(re.search(r"bytes=(\d{2,})", str(refusal.value))[1])
    raised = run_clean(source, tmp_path / "raised", {"filters": []}, **keys)
    assert raised.documents == done.documents

    (tmp_path / "a.csv").write_text("text\nA book.\n")
    source[0]["path"] = str(tmp_path / "a.csv")
    with refused(r"'split' .*not an option of the reader csv"):
        run_clean(source, tmp_path / "csv", {"filters": []})
