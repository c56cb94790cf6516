"""Lines of a file by ranges, against `bytes.split`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.ingest.formats import byte_lines
from clozeline.pipeline.ingest.formats.byte_lines import ByteLines, find_line_start
from clozeline.pipeline.ingest.formats.limits import Limits

CONTENT = st.lists(st.sampled_from([b"a", b"bcd", b"\n", b"\r\n", b"\xff\xfe", b"e" * 5]), max_size=30).map(b"".join)


@settings(max_examples=80, deadline=None)
@given(CONTENT, st.integers(0, 80), st.integers(0, 80), st.integers(1, 7), st.integers(0, 9))
def test_lines_that_begin_in_the_range(content: bytes, start: int, length: int, piece: int, limit: int) -> None:
    start, end = min(start, len(content)), min(start + length, len(content))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_lines, "_PIECE", piece)
        path = Path(folder) / "file"
        path.write_bytes(content)
        begins = [find_line_start(path, position) for position in range(len(content) + 1)]
        lines = ByteLines(path, start, end, Limits(line_bytes=max(1, limit)))
        found = list(lines)
    starts = [0, *(place + 1 for place, byte in enumerate(content) if byte == 10)]
    for position, begin in enumerate(begins):
        assert begin == min([one for one in starts if one >= position], default=len(content))
    whole = [(at, content[at:].partition(b"\n")[0]) for at in starts if at < len(content)]
    wanted = [(at, line if len(line) <= max(1, limit) else len(line)) for at, line in whole if start <= at < end]
    assert found == wanted
    assert not lines.rest
