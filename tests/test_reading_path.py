"""The reading path of docs/how-it-works.md stays short."""

from __future__ import annotations

from tests.reading_path import count_lines, reading_path


def test_a_document_becomes_a_gradient_within_12_files_and_1500_lines() -> None:
    steps = reading_path()
    assert 8 <= len(steps) <= 12
    assert sum(map(count_lines, steps)) <= 1500
