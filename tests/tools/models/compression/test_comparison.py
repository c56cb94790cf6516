"""The words and numbers of the table."""

from __future__ import annotations

import pytest

from clozeline.tools.models.compression.comparison import Row, Score, comparison_page, format_score, table_lines
from clozeline.tools.models.compression.measurements import Latency, Sizes

DENSE = Sizes(1000, 1000, 4000, 2e6)
SCORE = Score("accuracy", (0.5, 0.75))


def row(sizes: Sizes, own: float = 1.0, own_32: float = 1.0, **changes: object) -> Row:
    latencies = {1: Latency(own, 1.0), 32: Latency(own_32, 1.0)}
    return Row("small", sizes, DENSE, latencies, SCORE, SCORE, "heads: half (1905.10650)", **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "own", "own_32", "words"),
    [
        (Sizes(500, 500, 2000, 1e6), 0.5, 1.0, "saves disk and time at batch 1"),
        (Sizes(500, 500, 2000, 1e6), 0.5, 0.5, "saves disk and time at batch 1, 32"),
        (Sizes(1000, 1000, 4000, 1e6), 1.0, 0.9, "saves time at batch 32"),
        (Sizes(1000, 500, 4000, 2e6), 0.8, 0.8, "saves nothing measurable: dense kernels multiply the 50 % zeros"),
        (Sizes(1000, 1000, 1000, 2e6), 0.8, 0.8, "saves disk only"),
        (Sizes(1000, 1000, 1000, 2e6, integers=True), 1.0, 0.8, "saves disk and time at batch 32"),
        (Sizes(1000, 990, 1000, 2e6), 1.0, 0.97, "saves disk only"),
        (Sizes(1000, 500, 4000, 2e6), 0.99, 1.2, "saves nothing measurable: dense kernels multiply the 50 % zeros"),
        (Sizes(1000, 995, 3990, 2e6), 0.99, 1.2, "saves nothing measurable"),
    ],
)
def test_a_row_says_what_it_saves(sizes: Sizes, own: float, own_32: float, words: str) -> None:
    """Without fewer FLOPs or other kernels a lower latency is noise."""
    saved = row(sizes, own, own_32).savings
    assert saved.startswith(words) if "zeros" in words else saved == words


def test_a_batch_size_that_became_slower_is_named() -> None:
    times = {1: Latency(1 / 0.76, 1.0), 32: Latency(0.5, 1.0)}
    found = Row("int8", Sizes(1000, 1000, 1000, 2e6, integers=True), DENSE, times).savings
    assert found == "saves disk and time at batch 32, slower at batch 1"
    only = Row("int8", Sizes(1000, 1000, 1000, 2e6, integers=True), DENSE, {1: times[1], 32: times[1]}).savings
    assert only == "saves disk only, slower at batch 1, 32"


def test_the_table_is_aligned_and_names_the_claim() -> None:
    dense = Row("dense", DENSE, DENSE, {}, SCORE, SCORE)
    lines = list(table_lines([dense, row(Sizes(500, 400, 2000, 1e6), 0.002, 0.5)]))
    assert lines[0].split()[:3] == ["model", "parameters", "non-zero"]
    assert lines[2] == "  the dense model"
    assert lines[3].split()[:5] == ["small", "500", "400", "0.00", "1.0"]
    assert "2.00 (500.00 x)" in lines[3]
    assert lines[3].endswith("62.50 ± 17.68  62.50 ± 17.68")
    assert lines[4] == "  saves disk and time at batch 1, 32; the paper's claim: heads: half (1905.10650)"
    assert len(lines[0]) == len(lines[1]) == len(lines[3])


def test_the_page_draws_scores_over_time() -> None:
    dense = Row("dense", DENSE, DENSE, {}, SCORE, SCORE)
    page = comparison_page([dense, row(DENSE, 0.002)])
    assert page.count("<svg") == 2
    assert "accuracy, %, by latency at batch 1: dense from 62.5 to 62.5; small from 62.5 to 62.5" in page
    bare = Row("dense", DENSE, DENSE)
    assert "<svg" not in comparison_page([bare])


def test_one_run_has_no_deviation() -> None:
    assert format_score(Score("f1", (0.125,))) == "12.50"
