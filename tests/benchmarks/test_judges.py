"""What judges the figures of benchmarks: pairs of known similarity, equal ids, scores of text, parts of the scale."""

import random

import numpy as np
import pytest

from benchmarks.dedup import recall_by_bins, write_pairs
from benchmarks.encode import check_ids, load_ours, load_peer, train
from benchmarks.extraction_pages import MarkedPage, read_plainly, score_strings, score_texts
from benchmarks.scale import _PARTS
from clozeline.pipeline.dedup.near import MinHash

_TEXTS = [
    "def mask(token):\n    return token  # the mask",
    "naïve Füße 12,345 ½ 遮蔽",
    "",
    "<mask> 's  \t x",
    "the mask " * 40,
]


def test_pairs_have_the_similarity_of_their_bin_and_recall_is_compared_with_theory(monkeypatch):
    texts, similarities = write_pairs(0.625, 0.675, 5, random.Random(3))
    for index, similarity in enumerate(similarities):
        left, right = (set(MinHash().shingles(text).tolist()) for text in texts[2 * index : 2 * index + 2])
        assert similarity == len(left & right) / len(left | right)
        assert 0.625 <= similarity < 0.675
    rows = recall_by_bins(30)
    assert [row["bin"] for row in rows][::8] == ["0.475 to 0.55", "0.925 to 0.975"]
    assert all(abs(row["ours"] - row["theory"]) <= 4 * row["error"] for row in rows)
    keys = MinHash.band_keys
    monkeypatch.setattr(MinHash, "band_keys", lambda self, signature: keys(self, signature)[:2])  # of 14 bands
    assert any(row["ours"] < row["theory"] - 3 * row["error"] for row in recall_by_bins(30))


def test_both_sides_of_encoding_give_the_same_ids_and_others_end_it(tmp_path):
    folder = train("byte_bpe", _TEXTS * 8, 600, tmp_path)
    ours, peers = ([row.tolist() for row in load(folder)(_TEXTS)] for load in (load_ours, load_peer))
    assert ours == peers

    def encode(texts):
        return [np.frombuffer(text.encode(), np.uint8) for text in texts]

    check_ids(encode, encode, _TEXTS)
    with pytest.raises(RuntimeError, match="2 texts differ, such as text 1"):
        check_ids(encode, lambda texts: encode([text.replace("1", "2").replace("<", "_") for text in texts]), _TEXTS)


def test_scores_of_extracted_text():
    """Of shingles: gold has 4, the first text 3, of which 2 are gold; averages are over pages, F1 is of averages."""
    scores = score_texts([("a b c d e x", "a b c d e f g"), ("q", "q"), ("", "z"), ("y", "")])
    precision, recall = (2 / 3 + 1 + 0 + 0) / 4, (2 / 4 + 1 + 0 + 0) / 4
    f1 = 2 * precision * recall / (precision + recall)
    assert scores == pytest.approx({"precision": precision, "recall": recall, "f1": f1})
    assert score_texts([("a a a a a", "a a a a")])["precision"] == 0.5  # a repeated shingle counts each time
    one = MarkedPage("1", "strings", "", present=("a  b", "c"), absent=("d",))
    two = MarkedPage("2", "strings", "", present=("e",), absent=("f", "g"))
    assert score_strings([("a\nb d", one), ("e", two)]) == pytest.approx(dict.fromkeys(scores, 2 / 3))
    page = "<div><p>a <b>b</b>c</p><p>d&amp;e<br>f</p></div><script>x</script>"
    assert read_plainly(page).split() == ["a", "bc", "d&e", "f"]


@pytest.mark.parametrize(("part", "pattern", "count"), [("start", "*.arrow", 21), ("checkpoint", "step-*", 3)])
def test_each_part_of_the_scale_measures_the_amount_that_it_is_given(part, pattern, count, tmp_path):
    measured = _PARTS[part][0](tmp_path, 20 if part == "start" else count)
    assert all(value >= 0 for name, value in measured.items() if name.endswith(" s"))
    assert len(list(tmp_path.glob(pattern))) == count
