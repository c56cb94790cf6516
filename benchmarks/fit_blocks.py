"""Fit the weights of the extractor `blocks` on marked pages, and write its data file.

    nice -n 10 python -m benchmarks.fit_blocks --pages FOLDER [--output FILE]

FOLDER holds the archives of `benchmarks/extraction_pages.py`. The file holds weights, and hashes of the names of the
pages that they were fitted on, never text. The same pages give the same file. Raise `Blocks.VERSION` with new weights.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import parser

import numpy as np
import xxhash
from numpy.typing import NDArray

from benchmarks.extraction_pages import SHINGLE, MarkedPage, count_shingles, read_pages, tokens_of
from clozeline.pipeline.clean.extractors._block_features import measure_blocks
from clozeline.pipeline.clean.extractors._block_model import WEIGHTS, Weights
from clozeline.pipeline.clean.extractors._page_walk import Page, read_page
from clozeline.pipeline.clean.extractors.blocks import Blocks

FOLDS = 5
INVERSE_PENALTY = 0.006
"""C of the logistic regression, over standardized features"""
WEAK_WEIGHT = 7.5
"""weight of a block with a marked string, where the mean weight of a labeled block is 1"""
DROPPED_SHARE = 0.75
"""largest weight of a page's other blocks together, as a share of that of its main text"""
CAUTION = 0.2
"""taken from the bias: the logit that a block must exceed"""
_BASE_WEIGHT = 0.002
_STEPS, _TOLERANCE = 30, 1e-8
Floats = NDArray[np.float64]


class LabeledPage(NamedTuple):
    """A marked page, its features (n, F), and a label and a weight for each of its blocks, (n,)."""

    marked: MarkedPage
    page: Page
    features: Floats
    labels: Floats
    weights: Floats

    @property
    def key(self) -> int:
        return page_key(self.marked)


def page_key(marked: MarkedPage) -> int:
    """Return the hash of a page's name, which chooses its fold."""
    return xxhash.xxh64_intdigest(marked.name.encode())


def label_pages(pages: Sequence[MarkedPage]) -> list[LabeledPage]:
    """Return the pages that have blocks, with features and labels; weights have mean 1 over fully labeled blocks."""
    labeled = []
    for marked in pages:
        page = read_page(marked.html)
        if page.texts:
            label = _label_by_strings if marked.set == "strings" else _label_by_text
            labeled.append(LabeledPage(marked, page, measure_blocks(page), *label(marked, page)))
    full = np.concatenate([one.weights for one in labeled if one.marked.set != "strings"] or [np.ones(1)])
    mean = float(full.mean())
    return [one if one.marked.set == "strings" else one._replace(weights=one.weights / mean) for one in labeled]


def _label_by_text(marked: MarkedPage, page: Page) -> tuple[Floats, Floats]:
    """Label a block by whether most of its tokens are in shingles of the gold text; weight it by its tokens."""
    blocks = [tokens_of(text) for text in page.texts]
    flat = [token for block in blocks for token in block]
    gold = tokens_of(marked.gold)
    known = count_shingles(gold)
    covered = np.zeros(len(flat))
    for start, shingle in enumerate(zip(*(flat[offset:] for offset in range(SHINGLE)), strict=False)):
        if shingle in known:
            covered[start : start + SHINGLE] = 1
    sizes = np.array([len(block) for block in blocks])
    sums = np.concatenate(([0.0], np.cumsum(covered)))
    ends = np.cumsum(sizes)
    share = (sums[ends] - sums[ends - sizes]) / np.maximum(sizes, 1)
    labels = (share > 0.5).astype(np.float64)
    weights = sizes / max(len(gold), 1) + _BASE_WEIGHT
    # comments may be many times as long as a short article: one page must not outweigh the others
    main, other = float(weights @ labels), float(weights @ (1 - labels))
    if main:
        weights[labels == 0] *= min(1.0, DROPPED_SHARE * main / max(other, 1e-9))
    return labels, weights


def _label_by_strings(marked: MarkedPage, page: Page) -> tuple[Floats, Floats]:
    """Label only the blocks that hold a string that must or must not be kept; the others have weight 0."""
    present, absent = ([" ".join(string.split()) for string in strings] for strings in (marked.present, marked.absent))
    texts = [" ".join(text.split()) for text in page.texts]
    good = np.array([any(string in text for string in present) for text in texts])
    bad = np.array([any(string in text for string in absent) for text in texts])
    return good.astype(np.float64), WEAK_WEIGHT * (good | bad)


def fit(pages: Sequence[LabeledPage]) -> Weights:
    """Return the weights of the logistic regression, by Newton's method, with standardization folded in."""
    features = np.concatenate([page.features for page in pages])
    labels, weights = (np.concatenate([page[index] for page in pages]) for index in (3, 4))
    used = weights > 0
    features, labels, weights = features[used], labels[used], weights[used]
    mean, spread = features.mean(axis=0), features.std(axis=0)
    spread[spread < 1e-6] = np.inf  # a constant feature gets weight 0
    inputs = np.hstack(((features - mean) / spread, np.ones((len(features), 1))))
    penalty = np.full(inputs.shape[1], 1 / INVERSE_PENALTY)
    penalty[-1] = 0  # the bias is free
    solution = np.zeros(inputs.shape[1])
    for _ in range(_STEPS):
        probability = 1 / (1 + np.exp(-(inputs @ solution)))
        gradient = inputs.T @ (weights * (probability - labels)) + penalty * solution
        curvature = (inputs * (weights * probability * (1 - probability))[:, None]).T @ inputs + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        solution -= step
        if float(np.abs(step).max()) < _TOLERANCE:
            break
    bias = float(solution[-1] - (solution[:-1] * mean / spread).sum())
    return Weights(solution[:-1] / spread, bias - CAUTION)


def fit_folds(pages: Sequence[LabeledPage], folds: int = FOLDS) -> list[Weights]:
    """Return for each fold the weights fitted on the pages of all other folds."""
    return [fit([page for page in pages if page.key % folds != fold]) for fold in range(folds)]


def main() -> None:
    options = parser(__doc__, pages=(Path, "folder of the marked pages"), output=(WEIGHTS, "")).parse_args()
    labeled = label_pages(read_pages(options.pages))
    weights = fit(labeled)
    content = {
        "version": Blocks.VERSION,
        "weights": [float(f"{weight:.6g}") for weight in weights.weights],
        "bias": float(f"{weights.bias:.6g}"),
        "fitted_on": sorted({f"{page.key:016x}" for page in labeled}),
    }
    options.output.write_text(json.dumps(content, indent=0) + "\n", encoding="utf-8")
    print(f"{len(labeled)} pages, {sum(len(page.labels) for page in labeled)} blocks: {options.output}")


if __name__ == "__main__":
    main()
