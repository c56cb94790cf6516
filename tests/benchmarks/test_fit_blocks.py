from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from benchmarks.extraction_pages import MarkedPage
from benchmarks.fit_blocks import CAUTION, DROPPED_SHARE, INVERSE_PENALTY, LabeledPage, fit, fit_folds, label_pages
from clozeline.pipeline.clean.extractors._page_walk import Page

GOLD = "one two three four five six seven"
PAGE = MarkedPage("a", "article", f"<p>menu<p>{GOLD}<p>x y z<p>{GOLD} but not these other eight words at all", GOLD)


def test_labels_and_weights() -> None:
    page = label_pages([PAGE])[0]
    assert page.labels.tolist() == [0, 1, 0, 0]
    sizes = np.array([1, 7, 3, 15]) / 7 + 0.002
    main, other = sizes[1], sizes[[0, 2, 3]].sum()
    expected = np.where(page.labels == 1, sizes, sizes * DROPPED_SHARE * main / other)
    assert page.weights == pytest.approx(expected / expected.mean())


def test_strings_label_their_blocks_only() -> None:
    page = MarkedPage("b", "strings", "<p>keep this<p>not  this<p>other", present=("keep",), absent=("not this",))
    labeled = label_pages([PAGE, page])[1]
    assert labeled.labels.tolist() == [1, 0, 0]
    assert (labeled.weights > 0).tolist() == [True, True, False]


def make_pages(count: int) -> list[LabeledPage]:
    random = np.random.default_rng(3)
    pages = []
    for number in range(count):
        features = random.normal(2, 3, (20, 4))
        features[:, 3] = 1  # constant
        labels = (features[:, 0] + random.normal(0, 2, 20) > 2).astype(float)
        marked = MarkedPage(f"{number}", "article", "")
        pages.append(LabeledPage(marked, Page(), features, labels, random.uniform(0, 3, 20)))
    return pages


def test_the_fit_is_that_of_scikit_learn() -> None:
    pages = make_pages(10)
    features, labels, weights = (np.concatenate([page[index] for page in pages]) for index in (2, 3, 4))
    spread = features[:, :3].std(axis=0)
    oracle = LogisticRegression(C=INVERSE_PENALTY, tol=1e-10, max_iter=10_000)
    oracle.fit((features[:, :3] - features[:, :3].mean(axis=0)) / spread, labels, weights)
    ours = fit(pages)
    assert ours.weights[:3] * spread == pytest.approx(oracle.coef_[0], abs=1e-5)
    assert ours.weights[3] == 0
    means = features[:, :3].mean(axis=0)
    assert ours.bias + CAUTION + ours.weights[:3] @ means == pytest.approx(oracle.intercept_[0], abs=1e-5)


def test_a_fold_never_sees_its_own_pages() -> None:
    pages = make_pages(10)
    before = fit_folds(pages, folds=3)
    changed = [page._replace(labels=1 - page.labels) if page.key % 3 == 1 else page for page in pages]
    after = fit_folds(changed, folds=3)
    same = [np.array_equal(one.weights, two.weights) for one, two in zip(before, after, strict=True)]
    assert same == [False, True, False]
