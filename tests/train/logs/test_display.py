"""A run as a person sees it."""

from __future__ import annotations

import pytest
from rich.console import Console

from train.logs.display import Display, heldout_title, summary


def record(step: int) -> dict[str, object]:
    figures = {"loss": 1.5, "learning_rate": 1e-3, "gradient_norm": 2.0, "tokens_per_s": 1234.5, "skipped": 0}
    return {"step": step, **figures}


@pytest.mark.parametrize("terminal", [False, True])
def test_display_draws_on_terminals_only(terminal: bool) -> None:
    console = Console(force_terminal=terminal, record=True, width=120, quiet=False, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    with Display(40, 0, console) as display:
        for step in range(1, 41):
            display.step(record(step))
        display.heldout(40, {"heldout": {"loss": 1.0, "unigram_entropy": 3.0, "labels": 7}})
    text = console.export_text()
    console.file.close()
    assert "held-out at step 40: loss 1.0000, unigram entropy 3.0000 nats over 7 labels" in text
    if not terminal:
        assert text.count("loss 1.5000  lr 1.00e-03  norm 2.00  1,234 tokens/s") == 21


def test_skipped_steps_are_shown_only_where_there_are_any() -> None:
    assert "skipped" not in summary(record(1))
    assert summary({**record(1), "skipped": 2}).endswith("2 skipped")


def test_a_set_without_a_name_is_held_out() -> None:
    assert [heldout_title(name) for name in ("heldout", "news")] == ["held-out", "held-out news"]
