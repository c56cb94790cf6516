"""Bytes of files by offset, against `mmap`."""

import io
import mmap

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clozeline.pipeline.ingest.formats import input_file
from clozeline.pipeline.ingest.formats.input_file import FileBytes


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("bytes") / "a"


@given(data=st.lists(st.sampled_from(b"ab\x1f\x8b\x08"), min_size=1, max_size=60).map(bytes),
       parts=st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), min_size=1, max_size=6),
       chunk=st.integers(3, 9), read_ahead=st.integers(1, 30))  # fmt: skip
@example(data=b"ab" * 30, parts=[(40, 60), (41, 38)], chunk=9, read_ahead=30)
def test_bytes_are_those_of_mmap(path, data, parts, chunk, read_ahead):
    path.write_bytes(data)
    read = FileBytes(io.BytesIO(data), len(data))
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(input_file, "_CHUNK", chunk)
        patch.setattr(input_file, "_READ_AHEAD", read_ahead)
        assert len(mapped) == len(read)
        for start, end in parts:
            assert mapped[start:end] == read[start:end]
            for wanted in (b"\x1f\x8b\x08", b"ab", b"b"):
                assert read.find(wanted, start, end) == mapped.find(wanted, start, end)
