from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.clean.filters.quality import score_of_rank
from clozeline.pipeline.text.linear_model import LinearModel, feature_indices
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.pipeline.text.word_hashes import WordHashes
from clozeline.registry import choose

CASES = {"low_quality": "bad"}


def write_model(path: Path, logits: dict[str, float], bias: float = 0.0) -> Path:
    """A model in which each of these words has this logit, where it makes up all features of a text."""
    weights = np.zeros(1 << 18, np.int32)
    for word, logit in logits.items():
        weights[feature_indices(WordHashes().digests(word))] = round(logit * 65536)
    LinearModel(weights, round(bias * 65536)).save(path)
    return path


def options_in(folder: Path) -> dict[str, Any]:
    return {"model": str(write_model(folder / "model.npz", {"bad": -4.0}, bias=2.0)), "threshold": 0.5}


def judge(folder: Path, text: str, **options: Any) -> Any:
    entry = {"name": "quality", **options_in(folder), "threshold": None, **options}
    return choose("clozeline.pipeline.clean.filters", entry).build().judge(TextStatistics(text), "en")


def test_a_threshold_compares_the_score(tmp_path: Path) -> None:
    low, high = (judge(tmp_path, text, threshold=0.5) for text in ("bad", "good"))
    assert (low.reason, low.detail, low.columns) == ("low_quality", "0.1192 < 0.5", {"quality": 0.119203})
    assert (high.reason, high.columns, high.rank) == ("", {"quality": 0.880797}, None)
    assert judge(tmp_path, "bad", threshold=0.119203).reason == ""


def test_a_share_gives_a_rank_and_rejects_nothing(tmp_path: Path) -> None:
    verdict = judge(tmp_path, "bad", keep=0.5)
    assert (verdict.reason, verdict.rank) == ("", 2048 - 128)
    assert score_of_rank(verdict.rank) == pytest.approx(1 / (1 + math.exp(2 + 1 / 128)))
    assert score_of_rank(verdict.rank) < verdict.columns["quality"] < score_of_rank(verdict.rank + 1)
    assert judge(tmp_path, "bad").rank is None
    for bias, rank in ((-200.0, 0), (200.0, 4095)):
        model = write_model(tmp_path / "far.npz", {}, bias)
        assert judge(tmp_path, "text", keep=1.0, model=str(model)).rank == rank


@pytest.mark.parametrize("keep", [0, -0.1, 1.5, "half"])
def test_a_share_is_above_zero_and_at_most_one(tmp_path: Path, keep: Any) -> None:
    with pytest.raises(ConfigurationError, match="keep"):
        judge(tmp_path, "text", keep=keep)


def test_share_and_threshold_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="got both; remove one"):
        judge(tmp_path, "text", keep=0.5, threshold=0.5)
    with pytest.raises(ConfigurationError, match="model"):
        choose("clozeline.pipeline.clean.filters", "quality")
