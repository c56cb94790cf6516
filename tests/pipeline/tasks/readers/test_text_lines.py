from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers import Rejected
from clozeline.pipeline.tasks.readers._text_lines import line_count, text_lines
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


PARTS = st.sampled_from([b"a", b"\n", b"\r\n", b"\xff", b" ", "\u2028".encode(), b"x" * 30, "\ufeff".encode()])


@given(st.lists(PARTS, max_size=12).map(b"".join), st.integers(0, 12))
def test_lines_are_counted_as_they_are_read(tmp_path_factory: pytest.TempPathFactory, raw: bytes, cut: int) -> None:
    """Plain, as UTF-16, compressed, and cut off within the compressed stream."""
    folder, limits = tmp_path_factory.getbasetemp(), Limits(line_bytes=20)
    packed = gzip.compress(raw)
    wide = ("\ufeff" + raw.decode("utf-8", "ignore")).encode("utf-16-le")
    for content in (raw, wide, packed, packed[: len(packed) - cut], gzip.compress(raw + b"\n") + packed[:-cut]):
        path = written(folder, content)
        assert line_count(path, limits) == len(list(text_lines(path, limits)))
