"""A run as a person sees it, and its events in words."""

from unittest.mock import Mock

import pytest
from rich.console import Console

from clozeline.train.logs.display import (
    _PRINTED_EVENTS,
    _SILENT_EVENTS,
    Display,
    announcer,
    describe_event,
)
from tests.test_docs import ROOT


def record(step, **changes):
    figures = {
        "loss": 1.5,
        "learning_rate": 1e-3,
        "gradient_norm": 2.0,
        "tokens_per_s": 1234.5,
        "skipped": 0,
    }

    return {"step": step, "tokens": 3000 * step, **figures, **changes}


def shown(records, times, steps, seconds, *, terminal=False):
    """Lines of a display at which the clock reads these times.

    It goes back where a step comes again.
    """
    console = Console(force_terminal=terminal, record=True, width=200)
    clock = iter(times)
    last = 0

    with Display(steps, 0, seconds, console, clock=lambda: next(clock)) as display:
        for one in records:
            if one["step"] < last:
                display.rewind()
            display.step(one)
            last = one["step"]
        display.heldout(40, {"heldout": {"loss": 1.0, "unigram_entropy": 3.0, "labels": 7}})

    return console.export_text().splitlines()


def test_lines_are_seconds_apart_with_the_speed_and_the_time_left():
    *lines, last = shown(
        map(record, range(1, 41)),
        range(0, 400, 3),
        40,
        7.0,
    )

    assert last == "  held-out at step 40: loss 1.0000, unigram entropy 3.0000 nats over 7 labels"

    figures = "loss 1.5000  lr 1.00e-03  norm 2.00"

    assert [line.split("/")[0] for line in lines] == [f"step {step}" for step in range(1, 41, 3)]
    assert lines[0] == f"step 1/40  {figures}  1,234 tok/s"
    assert lines[1] == f"step 4/40  {figures}  1,000 tok/s  0:01:48 left"  # 36 steps of 3 s
    assert lines[-1] == f"step 40/40  {figures}  1,000 tok/s"
    assert not any(
        line.startswith("step ") for line in shown([record(1)], [0.0], 40, 7.0, terminal=True)
    )


PHASE = {"phase": 1, "shares": {"a": 0.75, "b": 0.25}, "global_batch": 16}


def test_events_are_written_and_some_are_shown():
    journal = Mock()
    display = Mock()
    announce = announcer(journal, display)
    announce("save", step=3, checkpoint="step-00000003")
    announce("phase", step=4, **PHASE)
    announce("unknown", step=5)

    assert [call.args[0] for call in journal.event.call_args_list] == ["save", "phase", "unknown"]
    journal.status.assert_called_once_with("running", checkpoint="step-00000003")
    display.say.assert_called_once_with(
        "step 4: phase 1 of the data begins: 75.0% a, 25.0% b, 16 rows per step"
    )


def test_the_operations_page_lists_the_events_that_have_a_sentence():
    page = (ROOT / "docs" / "operations.md").read_text()
    assert all(f"`{name}`" in page for name in (*_PRINTED_EVENTS, *_SILENT_EVENTS))


LOSS = {"value": 9.5, "median": 2.0, "deviations": 7.25}


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({"event": "data_starved", "waited_share": 0.125, "steps": 100}, "data in 12% of the last"),
        ({"event": "spike", "loss": LOSS, "command": "explain"}, "loss 9.5 (usually 2); to see"),
        ({"event": ["damaged"], "a": 1}, "a 1"),
    ],
)
def test_an_event_is_a_sentence_where_it_has_its_fields(event, told):
    assert told in describe_event(event)
