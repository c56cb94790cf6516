"""A linear model of texts over hashed words and word pairs (hashing: Weinberger et al., arXiv 0902.2206).

Weights are integers, so every machine computes the same score from the same text.
"""

from __future__ import annotations

import io
import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.errors import ConfigurationError
from clozeline.files import publish
from clozeline.pipeline.text.normal_form import MATCH_VERSION
from clozeline.pipeline.text.word_hashes import hashes_of, ngram_hashes
from clozeline.seeding import mix

MODEL_VERSION: Final = 1
"""Raised when the features of any text, or the meaning of a weight, change."""
BITS: Final = 18
"""Binary logarithm of the number of weights."""
UNIT: Final = 1 << 16
"""Integer weight of one logit."""


def feature_indices(digests: bytes) -> Int64:
    """Return the index of the weight of each word and of each pair of neighbors, shape [2 * words - 1].

    `digests` are the concatenated hashes of the words, as in `WordHashes.digests`.
    """
    words = hashes_of(digests)
    hashed = np.concatenate((mix(words), mix(ngram_hashes(words, 2))))
    return (hashed >> np.uint64(64 - BITS)).astype(np.int64)


@dataclass(frozen=True)
class LinearModel:
    """Weights, int32 of shape [2**18], and the bias, in units of 2**-16 logits per feature of a text."""

    weights: NDArray[np.int32]
    bias: int

    def logit(self, digests: bytes) -> float:
        """Return the mean weight of the features of a text plus the bias; the bias of a text without words."""
        indices = feature_indices(digests)
        total = int(self.weights[indices].sum(dtype=np.int64))
        return (total / max(1, len(indices)) + self.bias) / UNIT

    def save(self, path: Path) -> None:
        """Publish the model as .npz; equal models give equal bytes."""
        versions = np.array([MODEL_VERSION, MATCH_VERSION])
        content = io.BytesIO()
        np.savez(content, versions=versions, weights=self.weights, bias=np.array(self.bias, np.int64))
        with publish(path) as temporary:
            temporary.write_bytes(content.getvalue())

    @staticmethod
    def load(path: Path) -> LinearModel:
        """Read a model; ConfigurationError if it is no model, or one of another version. Nothing is unpickled."""
        remedy = "train one with `clozeline train-quality`"
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                versions, weights, bias = (arrays[name] for name in ("versions", "weights", "bias"))
        except FileNotFoundError as error:
            raise ConfigurationError(f"{path}: no such file; {remedy}") from error
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise ConfigurationError(
                f"{path}: expected a quality model, got something else ({error}); {remedy}"
            ) from error
        if versions.tolist() != [MODEL_VERSION, MATCH_VERSION]:
            raise ConfigurationError(
                f"{path}: expected a model of the versions {[MODEL_VERSION, MATCH_VERSION]} (features, words), got "
                f"{versions.tolist()}: its weights mean something else here; {remedy}"
            )
        if weights.dtype != np.int32 or weights.shape != (1 << BITS,) or bias.dtype != np.int64 or bias.shape != ():
            raise ConfigurationError(
                f"{path}: expected {1 << BITS} weights of int32 and a bias, got {weights.dtype} {list(weights.shape)} "
                f"and {bias.dtype} {list(bias.shape)}; {remedy}"
            )
        return LinearModel(weights, int(bias))


def probability(logit: float) -> float:
    """Return the logistic function of a logit."""
    return 1 / (1 + math.exp(-max(-700.0, min(700.0, logit))))
