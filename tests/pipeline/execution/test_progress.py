from __future__ import annotations

import io

import pytest
from rich.console import Console

from clozeline.pipeline.execution.progress import Progress


def progress(**options: bool) -> tuple[Progress, io.StringIO]:
    file = io.StringIO()
    found = Progress()
    found.console = Console(file=file, width=100, **options)  # type: ignore[arg-type]
    return found, file


def test_lines_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    Progress().stage_done("clean", 1.24, skipped=False)
    assert capsys.readouterr() == ("", "clean: done in 1.2 s\n")


def test_without_a_terminal_each_step_is_a_plain_line() -> None:
    found, file = progress()
    for total in (0, 1, 2):
        with found.bar("clean", total) as done:
            done(total)
    found.waiting()
    found.stage_done("dedup", 3.0, skipped=True)
    assert file.getvalue().splitlines() == [
        "clean: 1 unit",
        "clean: 2 units",
        "another run is writing this output: waiting for it",
        "dedup: already complete",
    ]


def test_a_bar_is_full_at_the_end_and_then_gone() -> None:
    found, file = progress(force_terminal=True)
    with found.bar("clean", 7) as done:
        done(3)
    assert "7/7" in file.getvalue()
    assert file.getvalue().endswith("\x1b[2K"), "the line is erased"
