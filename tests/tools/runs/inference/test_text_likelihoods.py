"""Scores of texts against rows built by hand, and refusals of scores that no training prepared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards.manifest import FrameFacts, ObjectiveFacts
from clozeline.pipeline.tokenize.tokenizers import Encoding
from clozeline.tools.runs.inference.text_likelihoods import (
    TextScorer,
    first_token,
    open_scorer,
    prepared_scores,
    ready_scores,
    word_indices,
)
from clozeline.train.startup.open_run import Run, open_run
from tests.train.written_runs import write_run

DECODER = {"model__family": "decoder", "model__heads": {"lm": 1.0}}
TEXTS = ["the page of the book", "a", "another page, unread"]


@pytest.fixture(scope="module")
def encoder(shard_sets: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    run = tmp_path_factory.mktemp("scored_encoder")
    write_run(run, shard_sets, [3], 1)
    return run, open_run(run)


def facts(architecture: Any, name: str = "masked_lm", heads: tuple[str, ...] = ("masked_lm",), **frame: Any) -> Any:
    return ObjectiveFacts(name=name, label=name, architecture=architecture, heads=heads, frame=FrameFacts(**frame))


def test_causal_scores_follow_the_end_of_a_document(shard_sets: Path, tmp_path: Path) -> None:
    write_run(tmp_path, shard_sets, [3], 1, "causal_lm", **DECODER)
    trained = open_run(tmp_path)
    scorer, kind = open_scorer(tmp_path, trained, None)
    assert kind == "causal"
    end = trained.tokenizer.vocabulary.specials["eos"]
    for text, found in zip(TEXTS, scorer.score(TEXTS), strict=True):
        row = [end, *trained.tokenizer.encode([text])[0].ids.tolist()]
        tensors = {"input_ids": torch.tensor([row]), "position_ids": torch.arange(len(row))[None]}
        tensors["lengths"] = torch.tensor([len(row)])
        with torch.no_grad():
            scores = trained.model.logits(tensors)["lm"][0].log_softmax(-1)
        assert found.tokens == len(row) - 1
        assert found.total == pytest.approx(sum(float(scores[at, row[at + 1]]) for at in range(len(row) - 1)), abs=1e-4)
    with pytest.raises(ConfigurationError, match=r"score=pll: the run was not trained for it.* by causal"):
        open_scorer(tmp_path, trained, "pll")


@pytest.mark.parametrize("kind", ["pll", "pll_word", "mntp"])
def test_masked_scores_frame_the_text(encoder: tuple[Path, Run], kind: Any) -> None:
    _, trained = encoder
    vocabulary, many = trained.tokenizer.vocabulary, False
    for text, found in zip(TEXTS, TextScorer(trained, kind, None).score(TEXTS), strict=True):
        encoding = trained.tokenizer.encode([text])[0]
        row = [vocabulary.specials["cls"], *encoding.ids.tolist(), vocabulary.specials["sep"]]
        words = [-1, *word_indices(text, encoding), -2]
        total = 0.0
        for place in range(1, len(row) - 1):
            hidden = [at for at in range(place, len(row)) if words[at] == words[place]]
            many = many or len(hidden) > 1
            masked = list(row)
            for at in hidden if kind == "pll_word" else [place]:
                masked[at] = vocabulary.specials["mask"]
            tensors = {"input_ids": torch.tensor([masked]), "position_ids": torch.arange(len(row))[None]}
            tensors["lengths"] = torch.tensor([len(row)])
            with torch.no_grad():
                scores = trained.model.logits(tensors)["masked_lm"][0, place - (kind == "mntp")]
            total += float(scores[: trained.model.vocab_size].log_softmax(-1)[row[place]])
        assert (found.total, found.tokens) == (pytest.approx(total, abs=1e-4), len(row) - 2)
    assert many


def test_a_score_that_no_training_prepared_is_refused(encoder: tuple[Path, Run]) -> None:
    run, trained = encoder
    assert open_scorer(run, trained, None)[1] == "pll"
    assert open_scorer(run, trained, "pll_word")[1] == "pll_word"
    for kind in ("causal", "mntp"):
        with pytest.raises(
            ConfigurationError, match=f"score={kind}: the run was not trained for it.* by pll, pll_word"
        ):
            open_scorer(run, trained, kind)  # type: ignore[arg-type]


def test_what_an_objective_prepares() -> None:
    assert prepared_scores(facts("encoder")) == ("pll", "pll_word")
    assert prepared_scores(facts("encoder", predict_from="previous")) == ("mntp",)
    assert prepared_scores(facts("encoder", "causal_lm", predict_from="previous")) == ("causal",)
    assert prepared_scores(facts("encoder", heads=("token",))) == ()
    assert prepared_scores(facts("decoder", "causal_lm", ("lm",))) == ("causal",)
    assert prepared_scores(facts("encoder_decoder", "span_corruption", ("lm",))) == ()


def test_the_token_before_a_text_is_that_of_training(encoder: tuple[Path, Run]) -> None:
    _, trained = encoder
    specials = trained.tokenizer.vocabulary.specials
    packed = facts("decoder", "causal_lm", ("lm",))

    def of(**options: Any) -> int | None:
        return first_token(trained, packed.model_copy(update={"options": options}))

    assert of() == of(grouping="packed", separator="eos") == specials["eos"]
    assert of(separator="sep") == specials["sep"]
    assert of(separator="none") is of(cross_documents=False) is of(grouping="document") is None
    assert of(grouping="document", add_bos=True) == specials["bos"]
    assert first_token(trained, facts("encoder", "causal_lm")) == specials["cls"]


def test_words_are_runs_of_letters_or_single_characters() -> None:
    """Tokens: un | read| pa|ges|,| a|b|.|  and one for the blank at the end."""
    text = "unread pages, ab. "
    starts = np.array([0, 2, 6, 9, 12, 13, 15, 16, 17])
    encoding = Encoding(np.zeros(9, dtype=np.uint16), starts, np.append(starts[1:], len(text)))
    assert word_indices(text, encoding) == [0, 0, 1, 1, 2, 3, 3, 4, -1]


@pytest.mark.parametrize("beside", ["pll", "mntp"])
def test_fused_scores_are_means(encoder: tuple[Path, Run], beside: Any) -> None:
    _, trained = encoder
    cls = trained.tokenizer.vocabulary.specials["cls"]
    kinds = [[*TextScorer(trained, kind, cls).score(TEXTS)] for kind in ("causal", beside)]
    fused = [*TextScorer(trained, "fused", cls, beside).score(TEXTS)]
    for found, causal, masked in zip(fused, *kinds, strict=True):
        assert causal.total != masked.total
        assert found.total == pytest.approx((causal.total + masked.total) / 2)
        assert found.tokens == causal.tokens == masked.tokens


def test_only_training_for_both_prepares_a_fused_score() -> None:
    causal, masked, previous = (
        facts("encoder", "causal_lm"),
        facts("encoder"),
        facts("encoder", predict_from="previous"),
    )
    assert list(ready_scores([causal, masked])) == ["causal", "pll", "pll_word", "fused"]
    assert list(ready_scores([previous, causal])) == ["causal", "mntp", "fused"]
    assert list(ready_scores([masked])) == ["pll", "pll_word"]
    assert list(ready_scores([facts("decoder", "causal_lm", ("lm",))])) == ["causal"]
