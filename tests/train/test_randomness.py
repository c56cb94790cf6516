"""The trainer keeps no random state: nothing outside one named place seeds or draws."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN = re.compile(
    r"import random\b|np\.random|numpy\.random|torch\.(rand|randn|randint|randperm|seed|Generator|multinomial|load)\b|"
    r"\.(get|set)_rng_state|pickle"
)
SEEDING = {"engine.py": 2}  # of the processor, and of a GPU


@pytest.mark.parametrize("path", sorted((ROOT / "train").rglob("*.py")), ids=lambda path: path.name)
def test_no_global_randomness_and_no_pickle(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not FORBIDDEN.search(text)
    assert text.count("manual_seed") == SEEDING.get(path.name, 0)
