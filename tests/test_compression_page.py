"""docs/compression.md: the Python blocks of early exit and token pruning, as a reader would paste them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_early_exit_and_token_pruning_trade_arithmetic_for_accuracy(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "compression.md").read_text(encoding="utf-8")
    section = page.partition("## Early exit and token pruning\n")[2].partition("\n## ")[0]
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    flops = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) FLOPs a row", done.stdout)]
    depths = [float(depth) for depth in re.findall(r"depth (\d\.\d\d)", done.stdout)]
    accuracies = [float(score) for score in re.findall(r": (0\.\d{3})", done.stdout)]
    assert depths[0] == 4 > depths[1] > depths[2] >= 1
    assert flops[0] > flops[1] > flops[2]
    assert all(pruned < flops[0] for pruned in flops[4:])
    assert (len(flops), len(accuracies)) == (6, 8)  # learned retention and thresholds print tokens a layer instead
    assert min(accuracies) > 0.8
