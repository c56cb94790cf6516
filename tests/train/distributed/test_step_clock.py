from __future__ import annotations

import pytest
import torch

from clozeline.train.distributed import step_clock
from clozeline.train.distributed.step_clock import StepClock


def test_parts_follow_each_other_and_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10.0, 12.0, 15.0, 16.0, 20.0])
    monkeypatch.setattr(step_clock.time, "perf_counter", lambda: next(times))
    clock = StepClock(torch.device("cpu"))
    for part in ("forward", "backward", "forward", "optimizer"):
        clock.end(part)
    assert clock.seconds() == {"forward": 2.0 + 1.0, "backward": 3.0, "optimizer": 4.0}
