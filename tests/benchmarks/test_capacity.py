"""The arithmetic of a large crawl, by hand, and the table of it in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.capacity import MEASURED, amounts, foresee, most_disk
from benchmarks.corpus_size import growth

_PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
_SHARES = 100.0, 0.19, 0.2, 0.5


def test_a_crawl_by_hand() -> None:
    """1 TB of WARC is half a one of text, of which a quarter passes `clean`, and half of that `dedup`."""
    rates = {
        "stored": 10, "text": 10, "tokens": 2, "cpu_s": {"clean": 36e-6, "dedup": 7.2e-6, "encode": 3.6e-6},
        "written": {"clean": 4, "dedup": 12, "encode": 8}, "left": {"clean": 5, "dedup": 4, "encode": 2},
    }  # fmt: skip
    assert list(amounts(rates, 1.0, 0.5, 0.25, 0.5).values()) == pytest.approx([1, 1 / 2, 1 / 16, 0.2 / 16])
    clean, dedup, encode = rows = foresee(rates, 1.0, 0.5, 0.25, 0.5)
    assert [row["text"] for row in rows] == [1 / 2, 1 / 8, 1 / 16]
    assert [row["core_h"] for row in rows] == pytest.approx([1e3, 200 / 8, 100 / 16])
    assert [row["intermediate"] for row in rows] == pytest.approx([0, 0.8 / 8, 0.6 / 16])
    assert [row["left"] for row in rows] == pytest.approx([0.5 / 8, 0.4 / 16, 0.2 / 16])
    assert most_disk(rows) == clean["left"] + dedup["left"] + dedup["intermediate"]
    assert most_disk([clean, encode]) == clean["left"] + encode["left"] + encode["intermediate"]


def test_rates_leave_out_what_both_sizes_take() -> None:
    def measured(size: int) -> dict[str, dict[str, object]]:
        counts = {"bytes_in": size, "characters_out": size}
        stage = {"counts": counts, "cpu_s": 3 + 2 * size, "written": 7 + size, "left": 1 + size}
        encode = {**stage, "counts": {"tokens": size // 4}}
        return {"clean": stage, "train_tokenizer": {**stage, "cpu_s": 1}, "encode": encode}

    rates = growth(measured(100), measured(300))
    assert (rates["stored"], rates["text"], rates["tokens"]) == (200, 200, 50)
    assert rates["cpu_s"] == {"clean": 400, "encode": 400}
    assert rates["written"] == rates["left"] == {"clean": 200, "encode": 200}


def test_the_documented_table_is_computed() -> None:
    rows = {row["stage"]: row for row in foresee(MEASURED, *_SHARES)}
    for stage, row in rows.items():
        cells = re.search(rf"^\| `{stage}` \| ([\d.]+) \| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \|", _PAGE, re.MULTILINE)
        assert cells is not None, stage
        figures = (f"{row['text']:.1f}", f"{row['core_h']:,.0f}", f"{row['intermediate']:.1f}", f"{row['left']:.1f}")
        assert cells.groups() == figures, stage
    sentence = "100 TB of WARC hold {text:.1f} TB of text. {text kept:.1f} TB of it are kept: {tokens, 10^12:.1f}"
    assert sentence.format(**amounts(MEASURED, *_SHARES)) in _PAGE
