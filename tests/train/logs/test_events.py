"""Events of a run in words, as its page and a person get them; what has no sentence keeps its fields."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from clozeline.train.logs.display import announcer, describe_event
from tests.test_docs import ROOT

PHASE = {"phase": 1, "shares": {"a": 0.75, "b": 0.25}, "global_batch": 16}


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({"event": "data_starved", "waited_share": 0.125, "steps": 100}, "12% of the last 100 steps went into waiting"),
        ({"event": "data", "phases": [PHASE]}, "phase 1 reads 75.0% a, 25.0% b, 16 rows a step"),
        ({"event": "spike", "loss": {"value": 9.5, "median": 2.0, "deviations": 7.25}, "command": "explain"},
         "loss 9.5 is 7.2 deviations above the median 2; its rows and documents:\n  explain"),
        ({"event": "save", "step": 5, "note": "x"}, "note x"),
        ({"event": ["damaged"], "a": 1}, "a 1"),
        ({"event": "data", "phases": 3}, "phases 3"),
    ],
)  # fmt: skip
def test_an_event_is_a_sentence_where_it_has_its_fields(event: dict[str, Any], told: str) -> None:
    assert describe_event(event).startswith(told)


def test_events_are_written_and_some_are_shown() -> None:
    journal, display = Mock(), Mock()
    announce = announcer(journal, display)
    announce("save", step=3, checkpoint="step-00000003")
    announce("phase", step=4, **PHASE)
    announce("unknown", step=5)
    assert [(call.args[0], call.kwargs["step"]) for call in journal.event.call_args_list] == [
        ("save", 3), ("phase", 4), ("unknown", 5),
    ]  # fmt: skip
    journal.status.assert_called_once_with("running", checkpoint="step-00000003")
    display.say.assert_called_once_with("step 4: phase 1 of the data begins: 75.0% a, 25.0% b, 16 rows a step")


def test_the_operations_page_lists_the_events_that_have_a_sentence() -> None:
    from clozeline.train.logs.display import _PRINTED, _SENTENCES

    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in (*_PRINTED, *_SENTENCES))
