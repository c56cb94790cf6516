"""Lines read from the end, compared with the whole file split at line ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.errors import StorageError
from train.logs import lines
from train.logs.lines import first_lines, last_lines, read_lines, unreadable_lines

pieces = st.sampled_from(
    [b'{"step": 1}', b'{"step": 22, "loss": 3.5}', b'{"st', b"", b"  ", b"\xff\xfe", b"[1]", b"x" * 40]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(pieces, max_size=8), st.booleans(), st.integers(1, 50))
def test_lines_from_the_end_are_those_from_the_start(
    tmp_path: Path, content: list[bytes], ended: bool, at_once: int
) -> None:
    path = tmp_path / "metrics.jsonl"
    whole = b"\n".join(content) + b"\n" * ended
    path.write_bytes(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_READ", at_once)
        found = list(last_lines(path))
    assert [whole[line.start : line.stop] for line in reversed(found)] == [
        line for line in whole.splitlines(keepends=True) if line.strip()
    ]
    records = [line.record for line in reversed(found) if line.record is not None]
    assert records == read_lines(path) == list(first_lines(path))
    assert records == [json.loads(piece) for piece in content if piece.startswith(b'{"step')]
    assert len(found) - len(records) == unreadable_lines(path)


def test_a_missing_file_has_no_lines_and_a_folder_is_no_file(tmp_path: Path) -> None:
    assert list(last_lines(tmp_path / "metrics.jsonl")) == []
    with pytest.raises(StorageError, match="cannot be read"):
        list(last_lines(tmp_path))
