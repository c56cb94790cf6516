"""Results of races: sums over the steps of made-up metrics, and lines worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clozeline.configuration.config import load_config, validate
from clozeline.errors import StorageError
from clozeline.tools.experiments.multirun.race_results import Result, record_line, result_of, standings, target_of
from clozeline.tools.experiments.multirun.race_rules import Entry, Race
from tests.tools.experiments.multirun.small_race import entry

RACE = load_config(Race, Path(__file__).parents[4] / "configs" / "race" / "race.yaml")
SLOW = Result(
    target=3.13,
    seconds=100.0,
    cpu_seconds=180.0,
    steps=900,
    tokens=3_600_000,
    flops=4e12,
    loss=3.12,
    reached=True,
)
FAST = replace(SLOW, seconds=38.0, cpu_seconds=36.0, tokens=1_000_000, steps=250)
RESULTS = {"baseline": [SLOW], "mine": [FAST, replace(FAST, seconds=42.0, cpu_seconds=36.0, tokens=1_200_000)]}


def metrics(folder: Path, *losses: float | None) -> Path:
    """Write the metrics of steps of 5 ms of which the processors worked 8 ms; some are evaluated."""
    lines: list[dict[str, Any]] = []
    for step, loss in enumerate(losses, 1):
        line = {"step": step, "step_ms": {"data": 1.0, "forward": 4.0}, "cpu_s": 0.008, "tokens": 10 * step,
                "flops": 1e3 * step}  # fmt: skip
        lines.append(line | ({} if loss is None else {"heldout": {"heldout": {"losses": {"masked_lm": loss}}}}))
    folder.mkdir(exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return folder


def test_a_result_adds_up_the_steps(tmp_path: Path) -> None:
    run = metrics(tmp_path / "run", None, 3.5, None, 3.0)
    found = result_of(run, 3.0)
    assert (found.steps, found.tokens, found.flops, found.loss, found.reached) == (4, 40, 4e3, 3.0, True)
    assert (found.seconds, found.cpu_seconds) == (pytest.approx(0.020), pytest.approx(0.032))
    assert not result_of(run, 2.99).reached
    earlier = result_of(run, 3.5)
    assert (earlier.steps, earlier.tokens, earlier.loss, earlier.reached) == (2, 20, 3.5, True)
    assert earlier.seconds == pytest.approx(0.010)
    with pytest.raises(StorageError, match="lacks steps or the last evaluation"):
        result_of(metrics(run, 3.0, None), 3.0)
    text = (run / "metrics.jsonl").read_text(encoding="utf-8")
    (run / "metrics.jsonl").write_text(text.replace('"step": 1', '"step": 7'), encoding="utf-8")
    with pytest.raises(StorageError, match="lacks steps"):
        result_of(run, 3.0)


def test_the_target_is_what_every_seed_of_the_baseline_reaches(tmp_path: Path) -> None:
    """One reached 3.102 before its end, the other ended at 3.113: 3.11 is not reached by both."""
    runs = [metrics(tmp_path / "0", 3.5, 3.102, 3.2), metrics(tmp_path / "1", 3.4, 3.3, 3.113)]
    assert target_of(runs) == pytest.approx(3.12)
    assert all(result_of(run, target_of(runs)).reached for run in runs)
    assert not all(result_of(run, target_of(runs) - 0.01).reached for run in runs)


def test_an_entry_is_compared_if_every_seed_reached_the_target() -> None:
    """100 seconds by the mean of 38 and 42 are 2.5; 180 by 36 are 5; 3.6 million tokens by 1.1 are 3.27."""
    table = list(standings(RACE, "judging", RESULTS))
    assert table[0] == (
        "The race to the baseline's held-out loss: 3.13 nats on the judging half of corrupt/masked_lm/heldout; "
        "all seeds of baseline reach it"
    )
    assert table[3].split() == [
        *("mine", "2", "of", "2", "3.1200", "250", "1,100,000", "4e+12", "40.0", "±", "2.8", "36.0", "±", "0.0"),
        *("2.50", "x", "5.00", "x", "3.27", "x"),
    ]
    missed = {**RESULTS, "mine": [FAST, replace(FAST, loss=3.2, reached=False)]}
    line = list(standings(RACE, "judging", missed))[3]
    assert "1 of 2" in line
    assert " x" not in line


def test_the_line_of_a_record() -> None:
    made: Entry = validate(Entry, entry("Muon"), "")
    when = ("2026-01-31", "abc1234")
    assert record_line(RACE, "mine", made, RESULTS, when, "make race") == (
        "| 2026-01-31 | abc1234 | mine | 40.0 ± 2.8 | 36.0 ± 0.0 | 1.10 M | 2.50 x / 5.00 x / 3.27 x | Muon | "
        "`make race` |"
    )
