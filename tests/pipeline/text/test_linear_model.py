"""The linear model of texts, against sums written out with Python's integers."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.pipeline.text.linear_model import LinearModel, probability
from clozeline.pipeline.text.normal_form import match_words
from clozeline.pipeline.text.word_hashes import WordHashes

WEIGHTS = np.random.Generator(np.random.PCG64(1)).integers(-(2**20), 2**20, 1 << 18).astype(np.int32)
MODEL = LinearModel(WEIGHTS, -777)


def finalize(x: int) -> int:
    """SplitMix64's finalizer."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from("ab Cé1\n漢-."), max_size=40))
def test_a_logit_is_the_mean_weight_of_words_and_pairs(text: str) -> None:
    hashes = [xxhash.xxh3_64_intdigest(word.encode()) for word in match_words(text)]
    pairs = [(left * 0x9E3779B97F4A7C15 + right) % 2**64 for left, right in pairwise(hashes)]
    chosen = [int(WEIGHTS[finalize(value) >> 46]) for value in (*hashes, *pairs)]
    expected = (sum(chosen) / max(1, len(chosen)) - 777) / 65536
    assert MODEL.logit(WordHashes().digests(text)) == expected


@pytest.mark.parametrize("logit", [-1e9, -3.0, 0.0, 0.5, 40.0, 1e9])
def test_a_probability_is_the_logistic_function(logit: float) -> None:
    assert probability(logit) == pytest.approx((1 + math.tanh(logit / 2)) / 2, abs=1e-15)


def test_a_file_gives_the_model_back_and_equal_models_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        MODEL.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    loaded = LinearModel.load(tmp_path / "a")
    assert (loaded.weights == WEIGHTS).all()
    assert loaded.bias == -777


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"versions": np.array([2, 2])}, r"versions \[1, 2\] .* got \[2, 2\]"),
        ({"versions": np.array([1, 7])}, r"got \[1, 7\]"),
        ({"weights": WEIGHTS[:-1]}, "expected 262144 weights of int32"),
        ({"weights": WEIGHTS.astype(np.float32)}, "got float32"),
        ({"bias": np.array(0.5)}, "got .*float64"),
        ({"bias": None}, "expected a quality model"),
        ({"weights": np.array([{}], dtype=object)}, "expected a quality model"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    arrays = {"versions": np.array([1, 2]), "weights": WEIGHTS, "bias": np.array(3), **changes}
    path = tmp_path / "model.npz"
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
    with pytest.raises(ConfigurationError, match=f"{path}.*{message}"):
        LinearModel.load(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut", b"\x80\x04N."])
def test_bytes_that_are_no_archive_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.npz"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="expected a quality model, got something else"):
        LinearModel.load(path)
    with pytest.raises(ConfigurationError, match="no such file; train one with `clozeline train-quality`"):
        LinearModel.load(tmp_path / "none.npz")
