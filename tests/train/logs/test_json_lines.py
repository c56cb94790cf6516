"""Lines read from the end, compared with the whole file split at line ends."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clozeline.errors import StorageError
from clozeline.sealed_json import unseal
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.logs import json_lines as lines
from clozeline.train.logs import recorder
from clozeline.train.logs.json_lines import last_lines, read_lines, unreadable_lines
from tests.sealed_lines import sealed
from tests.train.synthetic import tiny

pieces = st.sampled_from(
    [sealed(step=1).encode(), sealed(step=22, loss=3.5).encode(), b'{"st', b"", b"  ", b"\xff\xfe", b"[1]", b"x" * 40]
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
    assert records == read_lines(path)
    assert records == [unseal(json.loads(piece), "") for piece in content if piece.startswith(b'{"step')]
    assert len(found) - len(records) == unreadable_lines(path)


def test_only_the_lines_that_are_asked_for_are_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records of a long run take minutes to parse."""
    path, parsed, real = tmp_path / "metrics.jsonl", [], lines._parse
    path.write_text(f"{sealed(step=1)}\n" * 20_000)
    monkeypatch.setattr(lines, "_parse", lambda line, path: (parsed.append(line), real(line, path))[1])
    assert [line.record for line in itertools.islice(last_lines(path), 3)] == [{"step": 1}] * 3
    assert len(parsed) == 3


def test_a_missing_file_has_no_lines_and_a_folder_is_no_file(tmp_path: Path) -> None:
    assert list(last_lines(tmp_path / "metrics.jsonl")) == []
    with pytest.raises(StorageError, match="cannot be read"):
        list(last_lines(tmp_path))


@pytest.mark.parametrize(("complete", "code", "event"), [(True, 0, "done"), (False, 75, "stop")])
def test_the_end_has_an_exit_code_and_names_damaged_records(
    complete: bool, code: int, event: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start reads only the end of the records."""
    monkeypatch.setattr(recorder, "memory_by_rank", lambda _engine: [])
    (tmp_path / "metrics.jsonl").write_text(f'{{"step": 1\n{sealed(step=2, loss=0.5)}\n')
    world: Any = SimpleNamespace(rank=0)
    engine: Any = SimpleNamespace(config=tiny(output=str(tmp_path), log__spike=None), world=world)
    journal, display = Mock(), Mock()
    one = recorder.Recorder(engine, Mock(), journal, display, Mock(), Mock())
    assert one.end(TrainState(step=2, samples=16), complete, None) == code
    assert [call.args[0] for call in journal.event.call_args_list] == ["memory", event]
    assert journal.event.call_args.kwargs["reason"] == (None if complete else "asked on another rank")
    assert "metrics.jsonl: 1 lines are torn or damaged" in display.say.call_args.args[0]


def test_pages_while_training_cost_at_most_a_hundredth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of 2 s each, saves every 10 s: the first at once, the next ones at least 198 s after the end of one."""
    now, written = [0.0], []

    def draw(_: object) -> None:
        written.append(now[0])
        now[0] += 2.0

    monkeypatch.setattr(recorder, "write_report", draw)
    monkeypatch.setattr(recorder, "time", SimpleNamespace(monotonic=lambda: now[0]))
    engine: Any = SimpleNamespace(config=tiny(log__spike=None), world=SimpleNamespace(rank=0))
    one = recorder.Recorder(engine, Mock(), Mock(), Mock(), Mock(), Mock())
    for save in range(1, 61):
        now[0] = max(now[0], 10.0 * save)
        one.saved()
    assert written == [10.0, 210.0, 410.0]
