from __future__ import annotations

import re
from pathlib import Path

from tests.train.synthetic import tiny
from train.checkpoint.state import TrainState
from train.config import LogConfig
from train.logs.journal import Journal
from train.logs.report import closing_lines, curve, write_report


def test_curve_places_points_on_shared_axes() -> None:
    drawn = curve({"a": [(1, 4.0), (3, 2.0)], "b": [(2, 3.0)]}, "step")
    lines = re.findall(r'points="([^"]*)"', drawn)
    assert lines == ["60.0,20.0 840.0,220.0", "450.0,120.0"]
    assert curve({"a": []}, "step") == ""
    assert curve({"a": [(1, float("nan"))]}, "step") == ""


def test_long_series_is_thinned_by_averaging() -> None:
    points = [(float(step), float(step % 2)) for step in range(6000)]
    (line,) = re.findall(r'points="([^"]*)"', curve({"a": points}, "step"))
    assert len(line.split()) == 600


def test_report_is_one_file_without_references(tmp_path: Path) -> None:
    journal = Journal(tmp_path, LogConfig(tensorboard=False), 0)
    journal.event("start", step=0)
    heldout = {"a<b": {"loss": 1.0, "losses": {}, "labels": 5, "unigram_entropy": 2.0}}
    for step in range(1, 4):
        journal.step({"step": step, "loss": 4.0 - step, "learning_rate": 0.1, "heldout": heldout})
    memory = {"weights": 2**20, "gradients": 2**21, "optimizer": 0, "resident": 2**22}
    path = write_report(tiny(output=str(tmp_path)), [memory, memory])
    page = path.read_text()
    assert page.count("<polyline") == 3
    assert "held-out a&lt;b" in page
    assert "a<b" not in page
    assert "src=" not in page
    assert "href=" not in page
    assert "optimizer.learning_rate" in page


def test_closing_lines_compare_with_the_entropy(tmp_path: Path) -> None:
    journal = Journal(tmp_path, LogConfig(tensorboard=False), 0)
    for step, loss in ((1, 4.0), (2, 2.5)):
        heldout = {"heldout": {"loss": loss, "losses": {}, "labels": 5, "unigram_entropy": 3.0}}
        journal.step({"step": step, "loss": loss, "heldout": heldout})
    lines = closing_lines(tmp_path, TrainState(step=2, samples=16, tokens=1000, skipped=1), 4, "SIGTERM")
    assert lines == [
        "stopped (SIGTERM): step 2 of 4, 16 rows, 1,000 tokens",
        "loss 4.0000 at step 1, 2.5000 at step 2",
        "1 steps were skipped, their gradient was not finite: see events.jsonl",
        "held-out: loss 2.5000, below the unigram entropy 3.0000 of the same labels",
        "the state is saved: start the same command again to go on",
    ]
