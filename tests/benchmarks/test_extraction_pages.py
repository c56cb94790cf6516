import pytest

from benchmarks.extraction_pages import MarkedPage, read_plainly, score_strings, score_texts


def test_scores_of_shingles():
    # gold: 4 shingles; the text has 3, of which 2 are gold; averages are over pages, F1 is of the averages
    scores = score_texts([("a b c d e x", "a b c d e f g"), ("q", "q"), ("", "z"), ("y", "")])
    precision, recall = (2 / 3 + 1 + 0 + 0) / 4, (2 / 4 + 1 + 0 + 0) / 4
    assert scores == pytest.approx(
        {"precision": precision, "recall": recall, "f1": 2 * precision * recall / (precision + recall)}
    )


def test_a_repeated_shingle_counts_as_often_as_it_occurs():
    scores = score_texts([("a a a a a", "a a a a")])
    assert (scores["precision"], scores["recall"]) == (0.5, 1.0)


def test_scores_of_strings():
    one = MarkedPage("1", "strings", "", present=("a  b", "c"), absent=("d",))
    two = MarkedPage("2", "strings", "", present=("e",), absent=("f", "g"))
    scores = score_strings([("a\nb d", one), ("e", two)])
    assert scores == pytest.approx({"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3})


def test_plain_text_of_clean_markup():
    assert read_plainly("<div><p>a <b>b</b>c</p><p>d&amp;e<br>f</p></div><script>x</script>").split() == [
        "a", "bc", "d&e", "f",
    ]  # fmt: skip
