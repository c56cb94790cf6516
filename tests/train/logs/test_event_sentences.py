"""Events of a run in words; what has no sentence keeps its fields."""

from __future__ import annotations

from typing import Any

import pytest

from clozeline.train.logs.event_sentences import _SENTENCES, describe_event


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (
            {"event": "start", "steps": 2000, "shape": {"world_size": 2, "device": "cpu", "zero_stage": 1}},
            "Started 2,000 steps on 2 × cpu, ZeRO stage 1.",
        ),
        ({"event": "save", "step": 5, "time": 1.0, "checkpoint": "step-00000005"}, "Saved step-00000005."),
        ({"event": "done", "reason": None, "exit_code": 0}, "Completed."),
        ({"event": "data_starved", "waited_share": 0.125, "steps": 100},
         "The slowest rank waited for data for 12% of 100 steps."),
        (
            {"event": "data", "phases": [{"phase": 0, "shares": {"a": 0.75, "b": 0.25}, "global_batch": 16}]},
            "Phase 0 reads 75.0% a, 25.0% b, 16 rows a step.",
        ),
        ({"event": "save", "step": 5, "note": "x"}, "note x"),
        ({"event": "spike", "step": 5, "loss": 9.5, "command": "clozeline explain-batch"},
         "loss 9.5, command clozeline explain-batch"),
        ({"event": ["damaged"], "a": 1}, "a 1"),
        ({"event": "data", "phases": 3}, "phases 3"),
    ],
)  # fmt: skip
def test_an_event_is_a_sentence_where_it_has_its_fields(event: dict[str, Any], told: str) -> None:
    assert describe_event(event) == told


def test_the_sentences_are_of_events_that_the_operations_page_lists() -> None:
    from tests.test_docs import ROOT

    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in _SENTENCES)
