"""Perplexity against loops over tokens, and of a model that knows nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.scoring.causal import log_likelihoods
from clozeline.pipeline.shards import open_shards
from clozeline.tools.runs.evaluation.perplexity import perplexity_lines, perplexity_scores
from clozeline.tools.runs.evaluation.token_ngrams import TokenNgrams
from clozeline.tools.runs.inference.trained_model import TrainedModel, load_trained
from tests.tools.runs.inference.test_trained_model import write_run
from tests.tools.small_run import example_sets

DECODER = {"model__family": "decoder", "model__heads": {"lm": 1.0}}
TEXTS = ["the page of the book is long é.", "a", "another page of another book"]


@pytest.fixture(scope="module")
def decoder(shard_sets: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainedModel]:
    run = tmp_path_factory.mktemp("scored_decoder")
    write_run(run, shard_sets, [3], 1, "causal_lm", **DECODER)
    return run, load_trained(run)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), encoding="utf-8")
    return path


def test_texts_follow_the_end_of_another(decoder: tuple[Path, TrainedModel], texts: Path) -> None:
    run, trained = decoder
    end = trained.tokenizer.vocabulary.specials["eos"]
    rows = [[end, *one.ids.tolist()] for one in trained.tokenizer.encode(TEXTS)]
    nats = -sum(float(scores.sum()) for scores in log_likelihoods(trained.model, rows))
    found = perplexity_scores(run, trained, texts, window=40, stride=40)
    assert found["tokens"] == sum(map(len, rows)) - 3
    assert found["nats"] == pytest.approx(nats / found["tokens"])
    assert found["perplexity"] == pytest.approx(math.exp(nats / found["tokens"]))
    assert found["bytes"] == sum(len(text.encode()) for text in TEXTS)
    assert found["bits_per_byte"] == pytest.approx(nats / math.log(2) / found["bytes"])
    assert (found["documents"], found["first_token"]) == (3, "scored")
    lines = [*perplexity_lines(found | {"step": 3})]
    assert lines[0].startswith(f"perplexity {found['perplexity']:.3f}: ")
    assert "bits per byte; step 3" in lines[0]


def test_rows_of_a_set_are_scored_as_they_are(decoder: tuple[Path, TrainedModel]) -> None:
    run, trained = decoder
    shards = open_shards(Path(trained.sets[0].path))
    rows = [
        shards.read_block(block).row(number)["input_ids"].tolist()
        for block in range(len(shards.index))
        for number in range(len(shards.read_block(block)))
    ]
    scores = torch.cat(log_likelihoods(trained.model, rows))
    found = perplexity_scores(run, trained, shards.path, None, 48)
    assert (found["window"], found["tokens"]) == (48, len(scores))
    assert found["nats"] == pytest.approx(-float(scores.mean()))
    assert (found["bits_per_byte"], found["first_token"]) == (None, "context")
    assert "bits" not in next(iter(perplexity_lines(found | {"step": 3})))


def test_a_model_without_knowledge_has_the_perplexity_of_its_vocabulary(
    decoder: tuple[Path, TrainedModel], texts: Path
) -> None:
    run, _ = decoder
    trained = load_trained(run)
    torch.nn.init.zeros_(trained.model.family.tokens.weight)
    for window, stride in ((3, 1), (8, 5), (40, None)):
        found = perplexity_scores(run, trained, texts, window, stride)
        assert found["perplexity"] == pytest.approx(trained.model.vocab_size)
        assert found["tokens"] == sum(len(one.ids) for one in trained.tokenizer.encode(TEXTS))


def test_what_has_no_perplexity_is_refused(
    decoder: tuple[Path, TrainedModel], texts: Path, shard_sets: Path, tmp_path: Path
) -> None:
    run, trained = decoder
    for given, message in (
        ((texts, 65, None), "window: the position table has room for 64, got 65"),
        ((texts, 8, 9), "stride: expected at most the window 8, got 9"),
        (
            (example_sets(shard_sets)["masked_lm"][0], None, None),
            "perplexity needs uncorrupted rows, got those of mask",
        ),
    ):
        with pytest.raises(ConfigurationError, match=message):
            perplexity_scores(run, trained, *given)
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(ConfigurationError, match="expected tokens to score, got none"):
        perplexity_scores(run, trained, tmp_path / "empty.txt", None, None)
    write_run(tmp_path, shard_sets, [3], 1)
    with pytest.raises(
        ConfigurationError, match="perplexity needs a run that was trained to predict tokens left-to-right"
    ):
        perplexity_scores(tmp_path, load_trained(tmp_path), texts, None, None)


def test_ngrams_score_the_same_tokens(decoder: tuple[Path, TrainedModel], texts: Path, tmp_path: Path) -> None:
    run, trained = decoder
    counted = tmp_path / "counted.txt"
    counted.write_text("the page of the book is long. another page of another book", encoding="utf-8")
    found = perplexity_scores(run, trained, texts, window=40, stride=40, baseline=counted, ngram=2)
    end = trained.tokenizer.vocabulary.specials["eos"]
    rows = [[end, *one.ids.tolist()] for one in trained.tokenizer.encode([*TEXTS, counted.read_text(encoding="utf-8")])]
    model = TokenNgrams(rows[-1:], 2, trained.model.vocab_size)
    nats = -sum(model.log_probabilities(row).sum() for row in rows[:-1])
    assert found["baseline"] == {
        "ngram": 2,
        "counted_tokens": len(rows[-1]) - 1,
        "nats": pytest.approx(nats / found["tokens"]),
        "perplexity": pytest.approx(math.exp(nats / found["tokens"])),
    }
    lines = [*perplexity_lines(found | {"step": 3})]
    assert lines[-1].startswith(f"  baseline 2-gram of {len(rows[-1]) - 1:,} tokens: perplexity ")
    assert lines[-1].endswith("BELOW this baseline")
