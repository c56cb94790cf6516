from __future__ import annotations

from pathlib import Path

from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers import Rejected
from clozeline.pipeline.tasks.readers._text_lines import text_lines
from tests.pipeline.tasks.readers.reading import written


def test_one_bad_byte_costs_one_line(tmp_path: Path) -> None:
    r"""A mark at the beginning and `\r` are no text; `\x85` and other ends of lines that Python knows are."""
    raw = "\ufeffa\r\n".encode() + b"\xff\n" + "b\u2028c\x85d\n\n".encode() + b"x" * 40
    found = list(text_lines(written(tmp_path, raw), Limits(line_bytes=20)))
    assert found == [
        (0, "a"),
        (1, Rejected("bad_utf8", 1)),
        (2, "b\u2028c\x85d"),
        (3, ""),
        (4, Rejected("line_bytes", 4)),
    ]
