"""The file of a shard: position, hash and the latest bytes follow from what was written."""

from __future__ import annotations

import hashlib
import io

from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.shards.file_sink import HashedFile

PARTS = st.lists(st.binary(max_size=9), max_size=6)


@given(PARTS, PARTS, PARTS)
def test_kept_bytes_are_those_since_the_call(before: list[bytes], inside: list[bytes], after: list[bytes]) -> None:
    file = io.BytesIO()
    sink = HashedFile(file)
    for part in before:
        assert sink.write(memoryview(part)) == len(part)
    sink.keep()
    for part in inside:
        sink.write(part)
    assert sink.take_copy() == b"".join(inside)
    for part in after:
        sink.write(part)
    whole = b"".join([*before, *inside, *after])
    assert file.getvalue() == whole
    assert sink.position == sink.tell() == len(whole)
    assert sink.hexdigest() == hashlib.sha256(whole).hexdigest()
    assert sink.take_copy() == b"", "a copy is handed out once"


def test_closing_leaves_the_file_to_its_opener() -> None:
    file = io.BytesIO()
    sink = HashedFile(file)
    sink.close()
    assert (sink.closed, file.closed) == (True, False)
