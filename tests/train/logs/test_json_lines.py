"""Lines read from the end, compared with the whole file split at line ends."""

from __future__ import annotations

import io
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
from clozeline.train.distributed.process_group import World
from clozeline.train.logs import json_lines as lines
from clozeline.train.logs import recorder
from clozeline.train.logs.json_lines import last_lines, read_lines, unreadable_lines
from tests.distributed import RankPool
from tests.sealed_lines import sealed
from tests.train.masked_set import write_config
from tests.train.runs import start
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


def test_a_missing_file_has_no_lines_and_a_folder_is_no_file(tmp_path: Path) -> None:
    assert list(last_lines(tmp_path / "metrics.jsonl")) == []
    with pytest.raises(StorageError, match="cannot be read"):
        list(last_lines(tmp_path))


def counted(world: World, config: Path, steps: int) -> tuple[int, int, int]:
    """A start; returns (exit code, bytes read of metrics.jsonl, lines of it parsed)."""
    found, parsed, plain = {"bytes": 0}, [], Path.open

    class Counted(io.FileIO):
        def readinto(self, buffer: Any) -> int | None:
            size = super().readinto(buffer)
            found["bytes"] += size or 0
            return size

        def readall(self) -> bytes:
            content = super().readall()
            found["bytes"] += len(content)
            return content

    def opened(path: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if path.name == "metrics.jsonl" and mode == "rb":
            return io.BufferedReader(Counted(path))
        return plain(path, mode, *args, **kwargs)

    real = lines._parse
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", opened)
        for name, answer in (("write_report", ""), ("unreadable_lines", 0)):  # the page
            patch.setattr(recorder, name, lambda _, answer=answer: answer)
        patch.setattr(lines, "_parse", lambda line, path: (parsed.append(path.name), real(line, path))[1])
        code = start(world, config, [f"steps={steps}"])[0]
    return code, found["bytes"], parsed.count("metrics.jsonl")


def test_a_resume_reads_the_end_of_a_long_run(one_rank: RankPool, tmp_path: Path, shards: Path) -> None:
    """Of 100,000 records the 200 that a step is compared with, whatever else looks at the file; curves are left out."""
    config = write_config(tmp_path / "run.yaml", shards, tmp_path / "run", log__spike=6.0)
    assert one_rank.run(counted, config, 2)[0][0] == 0
    path = tmp_path / "run" / "metrics.jsonl"
    path.write_text(f"{sealed(step=0, loss=3.25, gradient_norm=1.5)}\n" * 100_000 + path.read_text())
    ((code, size, parsed),) = one_rank.run(counted, config, 4)
    assert code == 0
    assert parsed < 250
    assert size < 10 * lines._READ < path.stat().st_size / 4
    assert [one["step"] for one in read_lines(path)[-7:]] == [0, 1, 2, 2, 3, 4, 4]


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
