from __future__ import annotations

from pathlib import Path

from tests.pages import checked
from tests.train.synthetic import tiny
from train.checkpoint.state import TrainState
from train.config import LogConfig
from train.logs.journal import Journal
from train.logs.report import closing_lines, write_report

MEMORY = {"weights": 2**20, "gradients": 2**21, "optimizer": 0, "resident": 2**22}


def entered(folder: Path, name: str = "heldout") -> None:
    """Three steps with all their figures, the last two with a held-out loss."""
    journal = Journal(folder, LogConfig(tensorboard=False), 0)
    journal.event("start", step=0, note=name)
    for step in range(1, 4):
        found = {"loss": 2.0 + 1 / step, "losses": {}, "labels": 5, "unigram_entropy": 2.75}
        record = {
            "step": step, "loss": 5.0 - step, "losses": {"a": 1.0 * step, name: 2.0}, "learning_rate": 0.1 * step,
            "gradient_norm": None if step == 2 else 1.0, "tokens": 100 * step, "tokens_per_s": 50.0 * step,
            "step_ms": {"data": 1.0, "compute": 3.0}, "memory_bytes": step * 2**20,
        }  # fmt: skip
        journal.step({**record, "heldout": {name: found}} if step > 1 else record)


def test_pictures_show_the_records(tmp_path: Path) -> None:
    entered(tmp_path)
    page = checked(write_report(tiny(output=str(tmp_path)), [MEMORY, MEMORY]).read_text())
    assert page.pictures == [
        "Loss (nats): training from 4 to 2; held-out from 2.5 to 2.333; unigram entropy 2.75",
        "Loss by head (nats): a from 1 to 3; heldout from 2 to 2",
        "Gradient norm before clipping: gradient_norm from 1 to 1",
        "Learning rate: learning_rate from 0.1 to 0.3",
        "Tokens a second, all ranks: tokens_per_s from 50 to 150",
        "Time of a step (ms): compute 75.0 %; waiting for data 25.0 %",
        "Resident memory of rank 0 (MiB): resident from 1 to 3",
    ]


def test_tables_and_tiles_show_the_end(tmp_path: Path) -> None:
    entered(tmp_path)
    page = checked(write_report(tiny(output=str(tmp_path)), [MEMORY, MEMORY]).read_text())
    tiles = page.texts[page.texts.index("step") : page.texts.index("Loss (nats)")]
    assert tiles[: tiles.index("ranks") + 2] == [
        *("step", "3", "training loss", "2.0000", "held-out loss", "2.3333", "unigram entropy", "2.7500"),
        *("tokens", "300", "tokens a second, median", "100", "ranks", "2"),
    ]
    cells = page.cells
    assert cells[cells.index("labels") + 1 :][:5] == ["held-out", "2", "2.5000", "2.7500", "5"]
    assert cells[cells.index("resident") + 1 :][:5] == ["0", "1.0", "2.0", "0.0", "4.0"]
    assert cells[cells.index("optimizer.learning_rate") + 1] == "0.003"


def test_names_of_sets_and_events_are_escaped(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    entered(tmp_path, hostile)
    page = checked(write_report(tiny(output=str(tmp_path)), [MEMORY]).read_text())
    assert f"held-out {hostile}" in page.texts
    assert f"unigram entropy {hostile} 2.75" in page.texts
    assert f"note {hostile}" in page.cells


def test_equal_records_give_equal_bytes(tmp_path: Path) -> None:
    entered(tmp_path)
    pages = {write_report(tiny(output=str(tmp_path)), [MEMORY]).read_bytes() for _ in range(2)}
    assert len(pages) == 1


def test_a_run_without_a_finite_loss_has_a_page(tmp_path: Path) -> None:
    checked(write_report(tiny(output=str(tmp_path)), [MEMORY]).read_text())
    journal = Journal(tmp_path, LogConfig(tensorboard=False), 0)
    lost = {"loss": None, "losses": {}, "labels": 5, "unigram_entropy": 2.0}
    journal.step({"step": 1, "loss": float("nan"), "heldout": {"heldout": lost}})
    page = checked(write_report(tiny(output=str(tmp_path)), [MEMORY]).read_text())
    assert page.pictures == []
    assert page.texts.count("not finite") == 3


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
        "the state is saved: start the same command again to continue",
    ]
