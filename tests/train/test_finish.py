from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from clozeline.train import finish as finish_module
from clozeline.train.checkpoint.state import TrainState
from tests.train.synthetic import tiny


@pytest.mark.parametrize(("complete", "code", "event"), [(True, 0, "done"), (False, 75, "stop")])
def test_the_exit_code_says_whether_a_run_is_complete(
    complete: bool, code: int, event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finish_module, "memory_by_rank", lambda _engine: [])
    stop, world = SimpleNamespace(reason=None), SimpleNamespace(rank=1)
    job: Any = SimpleNamespace(config=tiny(), is_complete=lambda _state: complete, stop=stop, world=world, engine=None)
    journal = Mock()
    assert finish_module.finish(job, journal, Mock(), TrainState(step=3, samples=24)) == code
    assert [call.args[0] for call in journal.event.call_args_list] == ["memory", event]
    assert journal.event.call_args.kwargs["reason"] == (None if complete else "asked on another rank")
