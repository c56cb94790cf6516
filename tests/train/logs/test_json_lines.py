"""Lines read from the end, compared with the whole file split at line ends."""

import itertools
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clozeline.checksummed_json import verify_checksum
from clozeline.errors import StorageError
from clozeline.train.logs import json_lines as lines
from clozeline.train.logs.json_lines import last_lines, read_lines
from tests.sealed_lines import sealed

pieces = st.sampled_from(
    [
        sealed(step=1).encode(),
        sealed(step=22, loss=3.5).encode(),
        b'{"st',
        b"",
        b"  ",
        b"\xff\xfe",
        b"[1]",
        b"x" * 40,
    ]
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(pieces, max_size=8), st.booleans(), st.integers(1, 50))
def test_lines_from_the_end_are_those_from_the_start(tmp_path, content, ended, at_once):
    path = tmp_path / "metrics.jsonl"
    whole = b"\n".join(content) + b"\n" * ended
    path.write_bytes(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_READ_BYTES", at_once)
        found = list(last_lines(path))

    assert [whole[line.start : line.stop] for line in reversed(found)] == [
        line for line in whole.splitlines(keepends=True) if line.strip()
    ]

    records = [line.record for line in reversed(found) if line.record is not None]

    assert records == read_lines(path)
    assert records == [
        verify_checksum(json.loads(piece), "") for piece in content if piece.startswith(b'{"step')
    ]


def test_only_the_lines_that_are_asked_for_are_parsed(tmp_path, monkeypatch):
    """The records of a long run take minutes to parse."""
    path = tmp_path / "metrics.jsonl"
    parsed = []
    real = lines._parse
    path.write_text(f"{sealed(step=1)}\n" * 20_000)
    monkeypatch.setattr(
        lines, "_parse", lambda line, path: (parsed.append(line), real(line, path))[1]
    )

    assert [line.record for line in itertools.islice(last_lines(path), 3)] == [{"step": 1}] * 3
    assert len(parsed) == 3


def test_a_missing_file_has_no_lines_and_a_folder_is_no_file(tmp_path):
    assert list(last_lines(tmp_path / "metrics.jsonl")) == []
    with pytest.raises(StorageError, match="cannot be read"):
        list(last_lines(tmp_path))
