from __future__ import annotations

from pathlib import Path

from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers._sentence_lines import SentenceLines, sentence_lines
from tests.pipeline.tasks.readers.reading import written


def test_blank_lines_end_sentences(tmp_path: Path) -> None:
    """Any number of them, with spaces or none; the last sentence needs none."""
    path = written(tmp_path, b"\n\na\nb\n  \n\nc\n\xff\nd")
    assert list(sentence_lines(path, Limits())) == [
        SentenceLines(2, ["a", "b"]),
        SentenceLines(6, ["c", "d"], "bad_utf8"),
    ]
