from __future__ import annotations

from pathlib import Path

from pipeline.formats.limits import Limits
from pipeline.task_readers import Refused
from pipeline.task_readers._lines import text_lines
from tests.pipeline.task_readers.reading import written


def test_one_bad_byte_costs_one_line(tmp_path: Path) -> None:
    r"""A mark at the beginning and `\r` are no text; `\x85` and other ends of lines that Python knows are."""
    raw = "\ufeffa\r\n".encode() + b"\xff\n" + "b\u2028c\x85d\n\n".encode() + b"x" * 40
    found = list(text_lines(written(tmp_path, raw), Limits(line_bytes=20)))
    assert found == [
        (0, "a"),
        (1, Refused("bad_utf8", 1)),
        (2, "b\u2028c\x85d"),
        (3, ""),
        (4, Refused("line_bytes", 4)),
    ]
