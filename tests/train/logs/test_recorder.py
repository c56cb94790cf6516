"""Events as the journal and a person get them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from clozeline.train.logs.recorder import announcer


def test_events_are_written_and_some_are_shown() -> None:
    written: list[Any] = []
    said: list[str] = []
    journal: Any = SimpleNamespace(
        event=lambda event, **fields: written.append((event, fields)),
        status=lambda state, **fields: written.append((state, fields)),
    )
    announce = announcer(journal, SimpleNamespace(say=said.append))  # type: ignore[arg-type]
    announce("save", step=3, checkpoint="step-00000003")
    announce("phase", step=4, phase=1, shares={"a": 0.75, "b": 0.25}, global_batch=16)
    announce("unknown", step=5)
    assert written == [
        ("save", {"step": 3, "checkpoint": "step-00000003"}),
        ("running", {"checkpoint": "step-00000003"}),
        ("phase", {"step": 4, "phase": 1, "shares": {"a": 0.75, "b": 0.25}, "global_batch": 16}),
        ("unknown", {"step": 5}),
    ]
    assert said == ["step 4: phase 1 of the data begins: 0.75 a + 0.25 b, 16 rows a step"]
