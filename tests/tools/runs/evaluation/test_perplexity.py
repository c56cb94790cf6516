"""Perplexity against loops over tokens, of a model that knows nothing, and of masked tokens against transformers."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import yaml

from clozeline.errors import ConfigurationError
from clozeline.model.scoring.causal import log_likelihoods
from clozeline.model.scoring.masked import pseudo_log_likelihoods
from clozeline.pipeline.shards import open_shards
from clozeline.tools.models.export_model import main as export
from clozeline.tools.runs.evaluation.perplexity import perplexity_lines, perplexity_scores
from clozeline.tools.runs.evaluation.token_ngrams import TokenNgrams
from clozeline.tools.runs.inference.text_likelihoods import word_indices
from clozeline.tools.start import demo
from clozeline.train.startup.open_run import Run, open_run
from tests.tools.small_run import example_sets
from tests.train.written_runs import write_run

ROOT = Path(__file__).parents[4]
DECODER = {"model__family": "decoder", "model__heads": {"lm": 1.0}}
ENCODER_DECODER = {"model__family": "encoder_decoder", "model__heads": {"lm": 1.0}}
TEXTS = ["the page of the book is long é.", "a", "another page of another book"]


@pytest.fixture(scope="module")
def decoder(shard_sets: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    run = tmp_path_factory.mktemp("scored_decoder")
    write_run(run, shard_sets, [3], 1, "causal_lm", **DECODER)
    return run, open_run(run)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), encoding="utf-8")
    return path


def test_texts_follow_the_end_of_another(decoder: tuple[Path, Run], texts: Path) -> None:
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


def test_rows_of_a_set_are_scored_as_they_are(decoder: tuple[Path, Run]) -> None:
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


def test_a_model_without_knowledge_has_the_perplexity_of_its_vocabulary(decoder: tuple[Path, Run], texts: Path) -> None:
    run, _ = decoder
    trained = open_run(run)
    torch.nn.init.zeros_(trained.model.family.tokens.weight)
    for window, stride in ((3, 1), (8, 5), (40, None)):
        found = perplexity_scores(run, trained, texts, window, stride)
        assert found["perplexity"] == pytest.approx(trained.model.vocab_size)
        assert found["tokens"] == sum(len(one.ids) for one in trained.tokenizer.encode(TEXTS))


def test_what_has_no_perplexity_is_refused(
    decoder: tuple[Path, Run], texts: Path, shard_sets: Path, tmp_path: Path
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
    write_run(tmp_path, shard_sets, [3], 1, "span_corruption", **ENCODER_DECODER)
    with pytest.raises(ConfigurationError, match="which prepares no score of texts"):
        perplexity_scores(tmp_path, open_run(tmp_path), texts, None, None)


def test_ngrams_score_the_same_tokens(decoder: tuple[Path, Run], texts: Path, tmp_path: Path) -> None:
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


@pytest.fixture(scope="module")
def encoder(shard_sets: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    run = tmp_path_factory.mktemp("scored_encoder")
    model = yaml.safe_load((ROOT / demo.TRAINING).read_text(encoding="utf-8"))["model"]
    write_run(run, shard_sets, [3], 1, model=model)
    return run, open_run(run)


@pytest.mark.parametrize("window", [48, 9, 3])
@pytest.mark.parametrize("kind", ["pll", "pll_word"])
def test_pseudo_perplexity_equals_one_mask_at_a_time_in_transformers(
    encoder: tuple[Path, Run], texts: Path, tmp_path: Path, kind: Any, window: int
) -> None:
    """Each token is read by the exported model in a row of its own, with as much of the text as a window holds."""
    run, trained = encoder
    assert export([str(run), str(tmp_path / "exported")]) == 0
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "exported").eval()
    specials, room = trained.tokenizer.vocabulary.specials, window - 2
    total, count = 0.0, 0
    for text, encoding in zip(TEXTS, trained.tokenizer.encode(TEXTS), strict=True):
        ids, words = encoding.ids.tolist(), word_indices(text, encoding)
        for at, token in enumerate(ids):
            # the window whose middle is nearest to the token
            starts = range(max(1, len(ids) - room + 1))
            start = min(starts, key=lambda start, at=at: abs(start + room // 2 - at))
            masked = list(ids)
            for other in range(at, len(ids)):
                if other == at or (kind == "pll_word" and words[other] == words[at]):
                    masked[other] = specials["mask"]
            row = [specials["cls"], *masked[start : start + room], specials["sep"]]
            with torch.no_grad():
                logits = theirs(torch.tensor([row])).logits[0, 1 + at - start]
            total, count = total - float(logits.double().log_softmax(-1)[token]), count + 1
    found = perplexity_scores(run, trained, texts, window, None, score=kind)
    assert found["nats"] == pytest.approx(total / count, abs=1e-5)
    assert found["pseudo_perplexity"] == pytest.approx(math.exp(total / count), rel=1e-4)
    assert (found["tokens"], found["score"], found["window"]) == (count, kind, window)
    assert found["bits_per_byte"] == pytest.approx(total / math.log(2) / sum(len(text.encode()) for text in TEXTS))
    lines = [*perplexity_lines(found | {"step": 3})]
    assert lines[0].startswith(f"pseudo-perplexity {found['pseudo_perplexity']:.3f} ({kind}): ")
    assert lines[1].endswith(f"each masked in a window of {window}; not comparable with a causal perplexity")


def test_pseudo_perplexity_of_a_set_scores_its_documents(
    encoder: tuple[Path, Run], shard_sets: Path, tmp_path: Path
) -> None:
    """Documents of packed samples, without the separators between them, score as their texts do."""
    run, trained = encoder
    samples = open_shards(next(shard_sets.glob("group/*48*/heldout/manifest.json")))
    special = trained.tokenizer.vocabulary.special
    documents = []
    for block in range(len(samples.index)):
        rows = samples.read_block(block)
        for number in range(len(rows)):
            row = rows.row(number)
            edges = [0, *(int(start) for start in row["document_starts"] if start), len(row["ids"])]
            documents += [row["ids"][first:last].tolist() for first, last in pairwise(edges)]
    assert any(special[token] for ids in documents for token in ids)
    ids = [[token for token in own if not special[token]] for own in documents]
    rows = [[trained.tokenizer.vocabulary.specials["cls"], *own, trained.tokenizer.vocabulary.specials["sep"]]
            for own in ids]  # fmt: skip
    mask = trained.tokenizer.vocabulary.specials["mask"]
    scores = torch.cat(pseudo_log_likelihoods(trained.model, rows, [range(1, len(row) - 1) for row in rows], mask))
    found = perplexity_scores(run, trained, samples.path, 64, None)
    assert (found["score"], found["tokens"], found["bytes"]) == ("pll", len(scores), None)
    assert found["nats"] == pytest.approx(-float(scores.mean()))


def test_scores_without_a_pseudo_perplexity_are_refused(
    encoder: tuple[Path, Run], decoder: tuple[Path, Run], texts: Path, shard_sets: Path
) -> None:
    with pytest.raises(ConfigurationError, match=r"score=pll: the run was not trained for it.* by causal"):
        perplexity_scores(*decoder, texts, None, None, score="pll")
    for given, score, message in (
        ((texts, None, None), "mntp", r"score=mntp: the run was not trained for it.* by pll, pll_word"),
        ((texts, None, 4), None, "stride: belongs to score=causal; score=pll masks one token at a time"),
        ((texts, None, None, texts), "pll_word", "baseline: belongs to score=causal; score=pll_word"),
        ((texts, 2, None), None, r"window: expected at least 3, with \[CLS\] and \[SEP\], got 2"),
        ((example_sets(shard_sets)["causal_lm"][0], None, None), "pll_word", "score=pll_word needs texts"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            perplexity_scores(*encoder, *given, score=score)
