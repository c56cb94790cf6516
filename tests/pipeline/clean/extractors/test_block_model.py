from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from clozeline.pipeline.clean.extractors import _block_model
from clozeline.pipeline.clean.extractors._block_features import LINKS, LOG_LENGTH, measure_blocks
from clozeline.pipeline.clean.extractors._block_model import Weights, choose_blocks, load_weights
from clozeline.pipeline.clean.extractors._page_walk import Page, read_page
from clozeline.pipeline.clean.extractors.blocks import Blocks


def test_the_shipped_weights_fit_the_features() -> None:
    weights = load_weights(Blocks.VERSION)
    assert weights.weights.shape == (measure_blocks(read_page("<p>a")).shape[1],)
    assert np.isfinite(weights.weights).all()


def test_weights_of_another_version_are_refused() -> None:
    with pytest.raises(ValueError, match=f"version {Blocks.VERSION}, but the extractor `blocks` has version 99"):
        load_weights(99)


def best_labels(page: Page, potentials: list[float], cost: float) -> list[bool]:
    """Try all labels of frames and blocks; return those of the blocks with the largest total."""
    frames, blocks = len(page.parent), len(page.frame)
    best, answer = -np.inf, []
    for labels in product((False, True), repeat=frames + blocks):
        of_frame, of_block = labels[:frames], labels[frames:]
        total = sum(value for value, kept in zip(potentials, of_block, strict=True) if kept)
        total -= cost * sum(of_frame[frame] != of_frame[page.parent[frame]] for frame in range(1, frames))
        total -= cost * sum(of_frame[page.frame[block]] != of_block[block] for block in range(blocks))
        if total > best + 1e-12:
            best, answer = total, list(of_block)
    return answer


@pytest.mark.parametrize("seed", range(40))
def test_smoothing_is_the_exact_maximum_on_the_tree(seed: int) -> None:
    random = np.random.default_rng(seed)
    html = "<div><p>a<p>b</div><div>c<div><p>d<p>e</div></div>"
    page = read_page(html)
    potentials = random.normal(0, 1.2, len(page.texts))
    labels = _block_model._smooth(page, potentials).tolist()
    assert labels == best_labels(page, potentials.tolist(), _block_model._CHANGE_COST)


def features_of(lengths: list[float], links: list[float]) -> np.ndarray:
    features = np.zeros((len(lengths), 5))
    features[:, LOG_LENGTH], features[:, LINKS] = np.log1p(lengths), links
    return features


NONE = Weights(np.zeros(5), -100.0)


@pytest.mark.parametrize(
    ("lengths", "links", "kept"),
    [
        ([100, 100, 100], [0, 0.89, 1], [True, True, False]),
        ([500, 499, 0], [0, 0, 0], [True, True, True]),
        ([501, 500, 0], [0, 0, 0], [False, False, False]),
    ],
)
def test_a_small_page_without_main_text_keeps_all_but_links(
    lengths: list[float], links: list[float], kept: list[bool]
) -> None:
    assert choose_blocks(read_page("<p>a<p>b<p>c"), features_of(lengths, links), NONE).tolist() == kept


def test_a_small_page_with_enough_main_text_is_left_to_the_model() -> None:
    features = features_of([29, 71, 0], [0, 0, 0])
    features[:, 4] = (1, -1, -1)
    weights = Weights(np.array([0, 0, 0, 0, 100.0]), 0.0)
    page = read_page("<div>a</div><div><div>b</div></div><div><div>c</div></div>")
    assert choose_blocks(page, features, weights).tolist() == [True, True, True]
    features = features_of([31, 69, 0], [0, 0, 0])
    features[:, 4] = (1, -1, -1)
    weights = Weights(np.array([0, 0, 0, 0, 100.0]), 0.0)
    assert choose_blocks(page, features, weights).tolist() == [True, False, False]
