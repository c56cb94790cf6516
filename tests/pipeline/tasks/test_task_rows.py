from __future__ import annotations

import json

import numpy as np
import pytest

from clozeline.pipeline.tasks.task_rows import FRAMES, Form, record_bytes


@pytest.mark.parametrize(("stride", "room", "step"), [(None, 126, 63), (None, 1, 1), (128, 317, 128), (128, 60, 30)])
def test_steps_of_windows(stride: int | None, room: int, step: int) -> None:
    assert Form(FRAMES["bert"], 128, stride).step(room) == step


def test_records_are_json() -> None:
    raw = record_bytes({"words": ["Zoë", "\U0001f600"], "first": 0})
    assert raw.dtype == np.uint8
    assert json.loads(raw.tobytes()) == {"words": ["Zoë", "\U0001f600"], "first": 0}
