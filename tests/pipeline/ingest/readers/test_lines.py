r"""Files of lines, read in any ranges, against `bytes.split(b"\n")`."""

from __future__ import annotations

import gzip
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import Counted, RawRecord
from clozeline.pipeline.ingest.readers.lines import Lines
from tests.pipeline.captures import read_range


def expected(content: bytes, limit: int) -> list[tuple[int, object]]:
    """Offset and text of each line, or why it is none."""
    found, at = [], 0
    lines = content.split(b"\n")
    for line in lines[:-1] if lines[-1] == b"" else lines:
        raw = line.removeprefix(b"\xef\xbb\xbf") if at == 0 else line
        if len(line) > limit:
            found.append((at, "line_bytes"))
        elif not raw.strip():
            found.append((at, "blank_line"))
        else:
            try:
                found.append((at, raw.decode()))
            except UnicodeDecodeError:
                found.append((at, "bad_utf8"))
        at += len(line) + 1
    return found


CONTENT = st.lists(
    st.sampled_from([b"a", b"bc\r", b"\n", b"\n", b"\xff", b"\xc3\xbc", b" ", b"\xe2\x80\xa8", b"x" * 9]), max_size=40
).map(b"".join)


@settings(max_examples=80, deadline=None)
@given(CONTENT, st.booleans(), st.booleans(), st.data())
def test_ranges_hold_every_line_once_in_order(content: bytes, marked: bool, packed: bool, data: st.DataObject) -> None:
    content = (b"\xef\xbb\xbf" if marked else b"") + content
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(gzip.compress(content) if packed else content)
        reader = Lines(Lines.Options(), Limits(line_bytes=10))
        assert reader.splittable(path.read_bytes()) != packed
        size = path.stat().st_size
        inside = [] if packed else sorted(data.draw(st.lists(st.integers(0, size), max_size=4)))
        items = [item for start, end in pairwise([0, *inside, size]) for item in read_range(reader, path, start, end)]
    wanted = expected(content, 10)
    assert [item.reason if isinstance(item, Counted) else item.text for item in items] == [what for _, what in wanted]
    assert [item.locator for item in items if isinstance(item, RawRecord)] == [
        at for (at, _), item in zip(wanted, items, strict=True) if isinstance(item, RawRecord)
    ]


@pytest.mark.parametrize("damage", ["cut", "junk"])
def test_damage_comes_after_the_whole_lines_before_it(tmp_path: Path, damage: str) -> None:
    content = b"".join(b"line %d\n" % number for number in range(50_000))
    packed = gzip.compress(content, compresslevel=0)
    path = tmp_path / "file.gz"
    path.write_bytes(packed[: len(packed) // 2] if damage == "cut" else packed + b"no gzip")
    items = read_range(Lines(Lines.Options(), Limits()), path, 0, path.stat().st_size)
    *whole, last = items
    assert [item.text for item in whole if isinstance(item, RawRecord)] == [f"line {n}" for n in range(len(whole))]
    assert isinstance(last, Counted)
    assert (last.group, last.reason) == ("malformed", "truncated" if damage == "cut" else "trailing_junk")
    assert (len(whole) == 50_000) == (damage == "junk")
