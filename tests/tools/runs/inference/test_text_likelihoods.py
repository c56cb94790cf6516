"""Scores of texts against rows built by hand, and refusals of scores that no training prepared."""

import pytest

from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.shards.manifest import ObjectiveRecord
from clozeline.tools.runs.inference.text_likelihoods import (
    TextScorer,
    ready_scores,
    word_indices,
)
from tests.tools.small_run import compute_row_scores

TEXTS = ["the page of the book", "a", "another page, unread"]


def facts(architecture, name="masked_lm", heads=("masked_lm",), **frame):
    return ObjectiveRecord(
        name=name, label=name, architecture=architecture, heads=heads, frame=RowForm(**frame)
    )


@pytest.mark.parametrize("kind", ["pll", "pll_word", "mntp"])
def test_masked_scores_frame_the_text(encoder, kind):
    _, trained = encoder
    vocabulary = trained.tokenizer.vocabulary
    many = False

    for text, found in zip(TEXTS, TextScorer(trained, kind, ()).score(TEXTS), strict=True):
        encoding = trained.tokenizer.encode([text])[0]
        row = [
            vocabulary.specials["cls"],
            *encoding.ids.tolist(),
            vocabulary.specials["sep"],
        ]
        words = [-1, *word_indices(text, encoding), -2]
        total = 0.0

        for place in range(1, len(row) - 1):
            hidden = [at for at in range(place, len(row)) if words[at] == words[place]]
            many = many or len(hidden) > 1
            masked = list(row)
            for at in hidden if kind == "pll_word" else [place]:
                masked[at] = vocabulary.specials["mask"]
            scores = compute_row_scores(trained, masked, "masked_lm")[place - (kind == "mntp")]
            total += float(scores[: trained.model.vocab_size].log_softmax(-1)[row[place]])

        assert (found.total, found.tokens) == (pytest.approx(total, abs=1e-4), len(row) - 2)

    assert many


@pytest.mark.parametrize("beside", ["pll", "mntp"])
def test_fused_scores_are_means(encoder, beside):
    _, trained = encoder
    cls = trained.tokenizer.vocabulary.specials["cls"]
    kinds = [[*TextScorer(trained, kind, (cls,)).score(TEXTS)] for kind in ("causal", beside)]
    fused = [*TextScorer(trained, "fused", (cls,), beside).score(TEXTS)]
    for found, causal, masked in zip(fused, *kinds, strict=True):
        assert causal.total != masked.total
        assert found.total == pytest.approx((causal.total + masked.total) / 2)
        assert found.tokens == causal.tokens == masked.tokens


def test_only_training_for_both_prepares_a_fused_score():
    causal = facts("encoder", "causal_lm", predicts_next=True)
    masked = facts("encoder")
    previous = facts("encoder", predict_from="previous")

    assert list(ready_scores([causal, masked])) == ["causal", "pll", "pll_word", "fused"]
    assert list(ready_scores([previous, causal])) == ["causal", "mntp", "fused"]
    assert list(ready_scores([masked])) == ["pll", "pll_word"]
    assert list(ready_scores([facts("decoder", "causal_lm", ("lm",))])) == ["causal"]
