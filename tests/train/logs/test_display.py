"""A run as a person sees it."""

from __future__ import annotations

import pytest
from rich.console import Console

from clozeline.train.logs.display import Display, heldout_title, summary


def record(step: int) -> dict[str, object]:
    figures = {"loss": 1.5, "learning_rate": 1e-3, "gradient_norm": 2.0, "tokens_per_s": 1234.5, "skipped": 0}
    return {"step": step, "tokens": 3000 * step, **figures}


@pytest.mark.parametrize("terminal", [False, True])
def test_display_draws_on_terminals_only(terminal: bool) -> None:
    console = Console(force_terminal=terminal, record=True, width=120, quiet=False, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    clock = iter(range(0, 400, 3))
    with Display(40, 0, 7.0, console, clock=lambda: next(clock)) as display:
        for step in range(1, 41):
            display.step(record(step))
        display.heldout(40, {"heldout": {"loss": 1.0, "unigram_entropy": 3.0, "labels": 7}})
    text = console.export_text()
    console.file.close()
    assert "held-out at step 40: loss 1.0000, unigram entropy 3.0000 nats over 7 labels" in text
    if not terminal:
        lines = [line for line in text.splitlines() if line.startswith("step ")]
        shown = "loss 1.5000  lr 1.00e-03  norm 2.00"
        assert [line.split("/")[0] for line in lines] == [f"step {step}" for step in range(1, 41, 3)]
        assert lines[0] == f"step 1/40  {shown}  1,234 tok/s"
        assert lines[1] == f"step 4/40  {shown}  1,000 tok/s  0:01:48 left"  # 36 steps of 3 s
        assert lines[-1] == f"step 40/40  {shown}  1,000 tok/s"


def test_skipped_steps_are_shown_only_where_there_are_any() -> None:
    assert "skipped" not in summary(record(1), 7.0)
    assert summary({**record(1), "skipped": 2}, 7.0).endswith("7 tok/s  2 skipped")


def test_lines_of_long_runs_fit_80_columns() -> None:
    console = Console(record=True, width=200, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    times = iter(range(0, 10**6, 40))
    with Display(200_000, 0, 0.0, console, clock=lambda: next(times)) as display:
        for step in range(123_456, 123_459):
            display.step({**record(step), "tokens": 90_000_000 * step, "gradient_norm": 12.34, "loss": 3.5})
    lines = console.export_text().splitlines()
    console.file.close()
    assert len(lines) == 3
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "step 123458/200000 loss 3.5000 lr 1.00e-03 norm 12.34 2.25M tok/s 850:28:00 left"


def test_a_resumed_run_estimates_from_its_own_steps() -> None:
    """Seconds of an earlier start are not known: the first line has no estimate, the second one its own speed."""
    console = Console(record=True, width=120, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    times = iter([100.0, 104.0, 105.0])
    with Display(100, 0, 3.0, console, clock=lambda: next(times)) as display:
        for step in (51, 53, 54):
            display.step(record(step))
    first, second = console.export_text().splitlines()
    console.file.close()
    assert "left" not in first
    assert second.endswith("1,500 tok/s  0:01:34 left")  # 2 s a step, 47 steps


def test_a_run_that_returns_to_an_earlier_step_estimates_anew() -> None:
    """Also where that is the first step shown, of which no work is left to compare with."""
    console = Console(record=True, width=120, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    times = iter([100.0, 104.0, 105.0, 109.0])
    with Display(100, 0, 3.0, console, clock=lambda: next(times)) as display:
        for step in (51, 53, 51, 53):
            if step == 51:
                display.rewind()
            display.step(record(step))
    lines = console.export_text().splitlines()
    console.file.close()
    assert [line.endswith("1,500 tok/s  0:01:34 left") for line in lines] == [False, True, False, True]
    assert [line.split("/")[0] for line in lines] == ["step 51", "step 53", "step 51", "step 53"]


def test_a_set_without_a_name_is_held_out() -> None:
    assert [heldout_title(name) for name in ("heldout", "news")] == ["held-out", "held-out news"]
