"""Shares of pairs by hand: ties, lengths, baselines, means over paradigms."""

import json

import pytest

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.tools.runs.evaluation.minimal_pairs import Pair, pair_lines, pair_scores, read_pairs
from clozeline.tools.runs.evaluation.ngrams import WordNgrams
from clozeline.tools.runs.inference.text_likelihoods import TextScore, TextScorer

PAIRS = [
    Pair("the cat runs", "the cat run", "agreement", "morphology"),
    Pair("the dog runs", "the dog run fast", "agreement", "morphology"),
    Pair("a dog runs", "a dog runs", "agreement", "morphology"),
    Pair("who left", "left who", "questions", "syntax"),
    Pair("who ran off", "ran who off", "questions", "syntax"),
    Pair("she saw it", "she saw", "objects", "syntax"),
]
TOTALS = {"the cat runs": -3.0, "the cat run": -4.0, "the dog runs": -9.0, "the dog run fast": -2.0, "a dog runs": -1.0,
          "who left": -1.0, "left who": -2.0, "who ran off": -3.0, "ran who off": -5.0, "she saw it": -7.0,
          "she saw": -3.0}  # fmt: skip


class Table(TextScorer):
    def __init__(self):
        pass

    def score(self, texts):
        return (TextScore(TOTALS[text], len(text.split())) for text in texts)


def write(path, pairs):
    names = ("sentence_good", "sentence_bad", "UID", "linguistics_term")
    rows = [dict(zip(names, (one.good, one.bad, one.paradigm, one.phenomenon), strict=True)) for one in pairs]
    path.write_text("".join(json.dumps(row | {"pairID": "1"}) + "\n" for row in rows))


def test_shares_are_means_over_paradigms_and_ties_are_wrong():
    found = pair_scores(PAIRS, Table(), WordNgrams(["the dog run fast . who left ? she saw it . she saw it"]))
    assert {name: one["accuracy"] for name, one in found["paradigms"].items()} == {
        "agreement": pytest.approx(1 / 3),
        "objects": 0.0,
        "questions": 1.0,
    }
    assert found["accuracy"] == pytest.approx((1 / 3 + 0 + 1) / 3)
    assert found["phenomena"] == {"morphology": pytest.approx(1 / 3), "syntax": 0.5}
    assert (found["n"], found["ties"], found["paradigms"]["agreement"]["ties"]) == (6, 1, 1)
    assert found["same_length"] == {"n": 4, "accuracy": 0.75}
    by_paradigm = {name: one["baselines"] for name, one in found["paradigms"].items()}
    assert by_paradigm["agreement"]["shorter"] == pytest.approx(1 / 3)
    assert by_paradigm["questions"] == {"shorter": 0.0, "unigram": 0.0, "bigram": 0.5}, "the second is a tie"
    assert found["baselines"]["shorter"] == pytest.approx((1 / 3 + 0 + 0) / 3)
    ours, bigrams = [1 / 3, 0.0, 1.0], [by_paradigm[name]["bigram"] for name in found["paradigms"]]
    means = [sum(values) / 3 for values in (ours, bigrams)]
    moved = [[value - mean for value in values] for values, mean in zip((ours, bigrams), means, strict=True)]
    expected = (
        sum(x * y for x, y in zip(*moved, strict=True))
        / (sum(x * x for x in moved[0]) * sum(y * y for y in moved[1])) ** 0.5
    )
    assert found["correlation_with_bigram"] == pytest.approx(expected)


def test_lines_name_the_baselines_that_are_better():
    found = {"suite": "blimp", "score": "causal", "step": 7}
    plain = [*pair_lines(found | pair_scores(PAIRS[1:3], Table(), None))]
    assert plain[0] == "blimp by causal: 2 pairs of 1 paradigms, 1 ties; step 7"
    assert "  mean of the paradigms               0.0 %" in plain
    assert "  baseline shorter                   50.0 %  BELOW this baseline" in plain
    assert not any("bigram" in line for line in plain)
    assert plain[-1].startswith("  published, all 67 paradigms: 5-gram 61.2, LSTM 69.8")


def test_files_in_the_format_of_blimp(tmp_path):
    write(tmp_path / "a.jsonl", PAIRS[:4])
    write(tmp_path / "b.jsonl", PAIRS[4:])
    assert read_pairs(tmp_path) == PAIRS
    assert read_pairs(tmp_path, 1) == [PAIRS[0], PAIRS[3], PAIRS[5]]
    (tmp_path / "c.jsonl").write_text('{"sentence_good": "a"}\n')
    with pytest.raises(IntegrityError, match=r"c.jsonl, line 1: expected a field 'sentence_bad', got sentence_good"):
        read_pairs(tmp_path)
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(ConfigurationError, match="expected pairs of sentences, got none"):
        read_pairs(tmp_path / "none.jsonl")


def test_pairs_of_any_file(tmp_path):
    """A file is a paradigm where its lines name none."""
    lines = [{"good": "a b", "bad": "b a"}, {"good": "c", "bad": "d", "UID": "other", "linguistics_term": "x"}]
    path = tmp_path / "order.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    assert read_pairs(path) == [Pair("a b", "b a", "order", "pairs"), Pair("c", "d", "other", "x")]
    path.write_text('{"good": "a"}\n', encoding="utf-8")
    with pytest.raises(IntegrityError, match="expected a field 'sentence_bad'"):
        read_pairs(path)
