"""Claims: both directions, and figures of nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.peers.limits import Claim, finish


@pytest.mark.parametrize(
    ("claim", "ratio", "holds"),
    [
        (Claim("ours", "us", 2.0, 10.0, "peer", 4.0), 5.0, True),
        (Claim("ours", "us", 3.0, 10.0, "peer", 4.0), 10 / 3, False),
        (Claim("ours", "samples/s", 60.0, 100.0, "peer", 0.6, more=True), 0.6, True),
        (Claim("ours", "samples/s", 50.0, 100.0, "peer", 0.6, more=True), 0.5, False),
        (Claim("ours", "missing", 0.0, 0.0), 1.0, True),
        (Claim("ours", "missing", 1.0, 0.0), 0.0, False),
    ],
)
def test_a_claim(claim: Claim, ratio: float, holds: bool) -> None:
    assert claim.ratio == pytest.approx(ratio)
    assert claim.holds is holds


def test_one_limit_passed_is_exit_code_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right, wrong = Claim("memory", "MB", 0.0, 16.0), Claim("memory", "MB", 17.0, 16.0)
    assert finish([right], None) == 0
    assert finish([right, wrong], tmp_path / "rows.json") == 1
    rows = json.loads((tmp_path / "rows.json").read_text(encoding="utf-8"))
    assert [row["holds"] for row in rows] == [True, False]
    assert rows[0]["ratio"] is None, "no number of times better than nothing"
    assert "| memory | MB | 17 | at most 16 | limit | NO |" in capsys.readouterr().out
