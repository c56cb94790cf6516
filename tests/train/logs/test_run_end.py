from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from clozeline.train.checkpoint.state import TrainState
from clozeline.train.logs import run_end
from tests.sealed_lines import sealed
from tests.train.synthetic import tiny


@pytest.mark.parametrize(("complete", "code", "event"), [(True, 0, "done"), (False, 75, "stop")])
def test_the_exit_code_says_whether_a_run_is_complete(
    complete: bool, code: int, event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_end, "memory_by_rank", lambda _engine: [])
    engine: Any = SimpleNamespace(config=tiny(), world=SimpleNamespace(rank=1))
    journal = Mock()
    assert run_end.record_end(engine, TrainState(step=3, samples=24), complete, None, journal, Mock()) == code
    assert [call.args[0] for call in journal.event.call_args_list] == ["memory", event]
    assert journal.event.call_args.kwargs["reason"] == (None if complete else "asked on another rank")


def test_a_report_says_which_records_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start reads only the end of the records."""
    monkeypatch.setattr(run_end, "memory_by_rank", lambda _engine: [])
    (tmp_path / "metrics.jsonl").write_text(f'{{"step": 1\n{sealed(step=2, loss=0.5)}\n')
    config = tiny(output=str(tmp_path), log={"tensorboard": False})
    engine: Any = SimpleNamespace(config=config, world=SimpleNamespace(rank=0))
    display = Mock()
    run_end.record_end(engine, TrainState(step=2, samples=16), True, None, Mock(), display)
    assert "metrics.jsonl: 1 lines cannot be read" in display.say.call_args.args[0]
