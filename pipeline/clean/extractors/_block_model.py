"""The linear model of main-content blocks: weights from a data file, and smoothing over the page's tree."""

import json
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.clean.extractors._block_features import LINKS, LOG_LENGTH
from clozeline.pipeline.clean.extractors._page_walk import Page

WEIGHTS: Final = Path(__file__).with_name("_block_weights.json")
_LARGEST: Final = 4.0  # bound of a logit
_CHANGE_COST: Final = 0.5  # for an element and its parent, or block and element, that are not both kept
_SMALL_PAGE: Final = 1000  # characters, Han and Kana weighted
_SMALL_SHARE: Final = 0.3
_MOSTLY_LINKS: Final = 0.9


class Weights(NamedTuple):
    """Weights of the features (F,) and the bias, with standardization folded in."""

    weights: NDArray[np.float64]
    bias: float


@cache
def load_weights(version: int) -> Weights:
    """Return the weights that ship with the extractor, read once; ValueError if they are of another version."""
    stored = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    if stored["version"] != version:
        raise ValueError(
            f"{WEIGHTS}: version {stored['version']}, but the extractor `blocks` has version {version}; install the "
            "package again, or fit the weights by `python -m benchmarks.fit_blocks`"
        )
    return Weights(np.array(stored["weights"]), stored["bias"])


def choose_blocks(page: Page, features: NDArray[np.float64], model: Weights) -> NDArray[np.bool_]:
    """Return for each block whether it belongs to the main content, (n,)."""
    # rounded, so that no decision hangs on the order of a sum
    logits = np.round(features @ model.weights + model.bias, 6)
    lengths = np.expm1(features[:, LOG_LENGTH])
    kept = _smooth(page, np.clip(logits, -_LARGEST, _LARGEST) * np.minimum(1.5, 0.15 + lengths / 150))
    total = lengths.sum()
    if total < _SMALL_PAGE and lengths[kept].sum() < _SMALL_SHARE * total:
        return features[:, LINKS] < _MOSTLY_LINKS
    return kept


def _smooth(page: Page, potentials: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the labels of blocks that maximize the sum of potentials of kept blocks minus the cost of changes.

    The labels are those of all blocks and frames together: a change costs where a frame differs from the frame around
    it, or a block from its frame. On a tree the maximum takes two passes. A node tells its parent by how much keeping
    it is better, which is at most the cost of a change.
    """
    cost = _CHANGE_COST
    frame = np.array(page.frame)
    parent = page.parent
    gain = np.bincount(frame, np.clip(potentials, -cost, cost), len(parent)).tolist()
    for index in range(len(parent) - 1, 0, -1):
        gain[parent[index]] += max(-cost, min(cost, gain[index]))
    side = [cost if gain[0] > 0 else -cost]
    for index in range(1, len(parent)):
        side.append(cost if gain[index] + side[parent[index]] > 0 else -cost)
    kept: NDArray[np.bool_] = potentials + np.array(side)[frame] > 0
    return kept
