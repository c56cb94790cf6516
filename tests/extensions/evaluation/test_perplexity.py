"""Perplexity against loops over tokens, of a model that knows nothing, and of masked tokens against
transformers."""

import itertools
import json
import math
from collections import Counter, defaultdict

import hypothesis
import numpy as np
import pytest
import torch
import transformers
from hypothesis import settings
from hypothesis import strategies as st

from clozeline.extensions.evaluation.perplexity import (
    TokenNgrams,
    WordNgrams,
    perplexity_lines,
    perplexity_scores,
)
from clozeline.extensions.published.commands.export_model import main as export
from clozeline.extensions.published.commands.import_model import main as import_model
from clozeline.model.scoring.causal import log_likelihoods
from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.shards import open_shards
from clozeline.tools.runs.inference.text_likelihoods import word_indices
from clozeline.train.checkpoint.trained_model import TrainedModel
from tests.refusals import refused
from tests.tools.small_run import example_sets
from tests.train.written_runs import write_run

ENCODER_DECODER = {"model__family": "encoder_decoder", "model__heads": {"lm": 1.0}}

TEXTS = ["the page of the book is long é.", "a", "another page of another book"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    return path


def test_texts_follow_the_end_of_another(decoder, texts):
    _, trained = decoder
    end = trained.tokenizer.vocabulary.specials["eos"]
    rows = [[end, *one.ids.tolist()] for one in trained.tokenizer.encode(TEXTS)]
    nats = -sum(float(scores.sum()) for scores in log_likelihoods(trained.model, rows))
    found = perplexity_scores(trained, texts, window=40, stride=40)

    assert found["tokens"] == sum(map(len, rows)) - 3
    assert found["nats"] == pytest.approx(nats / found["tokens"])
    assert found["perplexity"] == pytest.approx(math.exp(nats / found["tokens"]))
    assert found["bytes"] == sum(len(text.encode()) for text in TEXTS)
    assert found["bits_per_byte"] == pytest.approx(nats / math.log(2) / found["bytes"])
    assert (found["documents"], found["first_token"]) == (3, "scored")


def test_without_a_token_before_it_the_first_token_is_context(decoder, texts, monkeypatch):
    """Its bytes do not count either."""
    _, trained = decoder
    alone = trained.objectives[0].model_copy(update={"frame": RowForm()})
    monkeypatch.setattr(type(trained), "objectives", [alone])
    found = perplexity_scores(trained, texts, window=40, stride=40)
    rows = [one.ids.tolist() for one in trained.tokenizer.encode(TEXTS)]
    nats = -sum(float(scores.sum()) for scores in log_likelihoods(trained.model, rows))
    scored = sum(
        len(text[len(trained.tokenizer.decode_part(row[:1])) :].encode())
        for text, row in zip(TEXTS, rows, strict=True)
    )

    assert (found["tokens"], found["bytes"], found["first_token"]) == (
        sum(map(len, rows)) - 3,
        scored,
        "context",
    )
    assert found["bits_per_byte"] == pytest.approx(nats / math.log(2) / scored)


def test_documents_of_packed_rows_are_scored_alone(decoder, shard_sets):
    _, trained = decoder
    manifest = example_sets(shard_sets)["causal_lm"][1].parents[1] / "heldout/manifest.json"
    rows = [
        part.tolist()
        for row in open_shards(manifest)
        for part in np.split(row["ids"], row["document_starts"][1:])
    ]

    scores = log_likelihoods(trained.model, rows)
    found = perplexity_scores(trained, manifest, window=64, stride=64)

    assert (found["documents"], found["tokens"]) == (len(rows), sum(map(len, scores)))
    assert found["nats"] == pytest.approx(
        -sum(float(own.sum()) for own in scores) / found["tokens"]
    )
    assert (found["bytes"], found["first_token"]) == (None, "context")


def test_a_model_without_knowledge_has_the_perplexity_of_its_vocabulary(decoder, texts):
    run, _ = decoder
    trained = TrainedModel.open(run)
    torch.nn.init.zeros_(trained.model.family.tokens.weight)

    for window, stride in ((3, 1), (8, 5), (40, None)):
        found = perplexity_scores(trained, texts, window, stride)
        assert found["perplexity"] == pytest.approx(trained.model.vocab_size)
        assert found["tokens"] == sum(len(one.ids) for one in trained.tokenizer.encode(TEXTS))


def test_what_has_no_perplexity_is_refused(decoder, texts, shard_sets, tmp_path):
    _, trained = decoder

    for given, message in (
        ((texts, 65, None), "window: the position table has 64 entries, got 65"),
        ((texts, 8, 9), "stride: expected at most the window 8, got 9"),
        (
            (example_sets(shard_sets)["masked_lm"][0], None, None),
            "perplexity needs uncorrupted rows, got those of mask",
        ),
    ):
        with refused(message):
            perplexity_scores(trained, *given)

    (tmp_path / "empty.txt").write_text("")
    with refused("expected tokens to score, got none"):
        perplexity_scores(trained, tmp_path / "empty.txt", None, None)
    write_run(tmp_path, shard_sets, [3], 1, "span_corruption", **ENCODER_DECODER)
    with refused("which prepares no score of texts"):
        perplexity_scores(TrainedModel.open(tmp_path), texts, None, None)


def test_ngrams_score_the_same_tokens(decoder, texts, tmp_path):
    _, trained = decoder
    counted = tmp_path / "counted.txt"
    counted.write_text("the page of the book is long. another page of another book")
    found = perplexity_scores(trained, texts, window=40, stride=40, baseline=counted, ngram=2)
    end = trained.tokenizer.vocabulary.specials["eos"]
    rows = [
        [end, *one.ids.tolist()] for one in trained.tokenizer.encode([*TEXTS, counted.read_text()])
    ]
    model = TokenNgrams(rows[-1:], 2, trained.model.vocab_size)
    nats = -sum(model.log_probabilities(row).sum() for row in rows[:-1])

    assert found["baseline"] == {
        "ngram": 2,
        "counted_tokens": len(rows[-1]) - 1,
        "nats": pytest.approx(nats / found["tokens"]),
        "perplexity": pytest.approx(math.exp(nats / found["tokens"])),
    }

    lines = [*perplexity_lines(found | {"step": 3})]

    assert "worse than this baseline" in lines[-1]


@pytest.mark.parametrize("window", [48, 9, 3])
@pytest.mark.parametrize("kind", ["pll", "pll_word"])
def test_pseudo_perplexity_equals_one_mask_at_a_time_in_transformers(
    bert, texts, tmp_path, kind, window
):
    """Each token is read by the exported model in a row of its own, with as much of the text as a
    window holds."""
    run = bert
    trained = TrainedModel.open(bert)

    assert export([str(run), f"{tmp_path}/exported"]) == 0

    theirs = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "exported").eval()
    specials = trained.tokenizer.vocabulary.specials
    room = window - 2
    total = 0.0
    count = 0

    for text, encoding in zip(TEXTS, trained.tokenizer.encode(TEXTS), strict=True):
        ids = encoding.ids.tolist()
        words = word_indices(text, encoding)

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
            total = total - float(logits.double().log_softmax(-1)[token])
            count = count + 1

    found = perplexity_scores(trained, texts, window, None, score=kind)

    assert found["nats"] == pytest.approx(total / count, abs=1e-5)
    assert found["pseudo_perplexity"] == pytest.approx(math.exp(total / count), rel=1e-4)
    assert (found["tokens"], found["window"]) == (count, window)
    assert "not comparable with a causal" in "\n".join(perplexity_lines(found | {"step": 3}))


def test_an_imported_model_reads_as_many_positions_as_it_has(bert, texts, tmp_path):
    trained, (exported, imported) = (
        TrainedModel.open(bert),
        (tmp_path / "exported", tmp_path / "imported"),
    )

    assert export([str(bert), str(exported)]) == import_model([str(exported), str(imported)]) == 0

    found = perplexity_scores(TrainedModel.open(imported), texts, None, None, score="pll")

    assert found == perplexity_scores(trained, texts, trained.max_length, None, score="pll")


def test_scores_without_a_pseudo_perplexity_are_refused(encoder, decoder, texts, shard_sets):
    with refused(r"score=pll: the run was not trained for it.* allowed: causal"):
        perplexity_scores(decoder[1], texts, None, None, score="pll")

    for given, score, message in (
        (
            (texts, None, None),
            "mntp",
            r"score=mntp: the run was not trained for it.* allowed: pll, pll_word",
        ),
        (
            (texts, None, 4),
            None,
            "stride: belongs to score=causal; score=pll masks one token at a time",
        ),
        (
            (texts, None, None, texts),
            "pll_word",
            "baseline: belongs to score=causal; score=pll_word",
        ),
        ((texts, 2, None), None, r"window: expected at least 3, with \[CLS\] and \[SEP\], got 2"),
        (
            (example_sets(shard_sets)["causal_lm"][0], None, None),
            "pll_word",
            "score=pll_word needs texts",
        ),
    ):
        with refused(message):
            perplexity_scores(encoder[1], *given, score=score)


V = 5


class SlowKneserNey:
    """Dictionaries of tuples, one probability at a time."""

    def __init__(self, documents, order):
        self.order = order
        raw = defaultdict(int)
        left = defaultdict(set)
        opens = defaultdict(int)

        for document in documents:
            # the last token of an n-gram is never the first of the document
            for end in range(1, len(document)):
                for n in range(1, min(order, end + 1) + 1):
                    gram = tuple(document[end - n + 1 : end + 1])
                    raw[gram] += 1
                    if end - n >= 0:
                        left[gram].add(document[end - n])
                    else:
                        opens[gram] += 1

        self.counts = {
            gram: raw[gram] if len(gram) == order else len(left[gram]) + opens[gram] for gram in raw
        }
        self.discounts = {}

        for n in range(1, order + 1):
            of = [count for gram, count in self.counts.items() if len(gram) == n]
            once = of.count(1)
            twice = of.count(2)
            self.discounts[n] = once / (once + 2 * twice) if once and twice else 0.5

    def probability(self, history, token):
        lower = self.probability(history[1:], token) if history else 1 / V
        n = len(history) + 1
        after = {
            gram: count
            for gram, count in self.counts.items()
            if gram[:-1] == history and len(gram) == n
        }

        total = sum(after.values())
        if not total:
            return lower
        discount = self.discounts[n]
        return (
            max(after.get((*history, token), 0) - discount, 0) + discount * len(after) * lower
        ) / total


DOCUMENTS = st.lists(
    st.lists(st.integers(0, V - 1), min_size=1, max_size=12), min_size=1, max_size=6
).filter(lambda documents: any(len(document) > 1 for document in documents))


@settings(max_examples=60, deadline=None)
@hypothesis.given(
    DOCUMENTS, st.lists(st.integers(0, V - 1), min_size=2, max_size=8), st.integers(1, 4)
)
def test_probabilities_are_those_of_the_formulas(documents, text, order):
    slow = SlowKneserNey(documents, order)
    found = TokenNgrams(documents, order, V).log_probabilities(text)
    expected = [
        math.log(slow.probability(tuple(text[max(0, at - order + 1) : at]), text[at]))
        for at in range(1, len(text))
    ]

    assert found.tolist() == pytest.approx(expected, abs=1e-12)


def test_tokens_are_drawn_as_often_as_their_probabilities_say():
    """Each of 5,000 texts is drawn anew; a bigram follows the start as often as the formulas say."""
    documents = [[0, 1, 2, 1, 3], [0, 2, 1, 2], [0, 1, 1, 3, 2]]
    slow = SlowKneserNey(documents, 3)
    model = TokenNgrams(documents, 3, V)
    draws = 5_000
    counts = Counter(tuple(model.draw(0, 2, seed)) for seed in range(draws))
    assert counts.total() == draws
    for first, second in itertools.product(range(V), repeat=2):
        share = slow.probability((0,), first) * slow.probability((0, first), second)
        error = math.sqrt(draws * share * (1 - share))
        assert abs(counts[first, second] - draws * share) < 5 * error + 1


def test_a_text_is_drawn_from_the_n_grams_of_the_baseline(decoder, texts, tmp_path):
    _, trained = decoder
    counted = tmp_path / "counted.txt"
    counted.write_text("the page of a book is long. a book is a book")
    found = perplexity_scores(trained, texts, 40, 40, baseline=counted, ngram=3, sample=12)
    ids = trained.tokenizer.encode([counted.read_text()])[0].ids.tolist()
    end = trained.tokenizer.vocabulary.specials["eos"]
    drawn = TokenNgrams([[end, *ids]], 3, trained.model.vocab_size).draw(end, 12)
    assert found["baseline"]["sample"] == trained.tokenizer.decode_part(drawn)
    assert found["baseline"]["sample"] in [*perplexity_lines(found | {"step": 3})][-1]
    with refused("sample: expected baseline"):
        perplexity_scores(trained, texts, 40, 40, sample=12)


def test_words_are_counted_as_tokens_and_unknown_ones_share_an_id():
    model = WordNgrams(["the cat saw the dog .", "the dog ran"])
    ids = {word: at for at, word in enumerate(["", "the", "cat", "saw", "dog", ".", "ran"])}
    documents = [[0, 1, 2, 3, 1, 4, 5], [0, 1, 4, 6]]

    assert model.words == 9

    for text in ("the dog", "zebra ran.", "unicorn ran ."):
        row = [0, *(ids.get(word, 7) for word in text.replace(".", " .").split())]
        for order in (1, 2):
            expected = TokenNgrams(documents, order, 8).log_probabilities(row).sum()
            assert model.log_probability(text, order) == pytest.approx(expected)
