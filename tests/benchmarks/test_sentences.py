"""Texts and scores of the comparison of sentence splitters."""

import pytest

from benchmarks.sentences import MarkedText, f1, read_folder, score

TREEBANK = """\
# newdoc id = a
# sent_id = 1
# text = Au revoir.
1-2\tAu\t_\t_\t_\t_\t_\t_\t_\t_
1\tà\tà\tADP\t_\t_\t0\troot\t_\t_
2\tle\tle\tDET\t_\t_\t1\tdet\t_\t_
3\trevoir\trevoir\tNOUN\t_\t_\t1\tdep\t_\tSpaceAfter=No
4\t.\t.\tPUNCT\t_\t_\t1\tpunct\t_\t_

# text = Vas-y!
1\tVas-y\taller\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No
2\t!\t!\tPUNCT\t_\t_\t1\tpunct\t_\tLang=fr|SpaceAfter=No

# newpar
# text = Du
1-2\tDu\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
1\tde\tde\tADP\t_\t_\t0\troot\t_\t_
2\tle\tle\tDET\t_\t_\t1\tdet\t_\t_

# text = Non.
1\tNon\tnon\tINTJ\t_\t_\t0\troot\t_\t_
"""


def test_texts_are_paragraphs_with_the_blanks_of_the_treebank(tmp_path):
    (tmp_path / "fr_x-ud-dev.conllu").write_text(TREEBANK)
    ((name, (language, texts)),) = read_folder(tmp_path).items()
    assert (name, language) == ("fr_x-ud-dev", "fr")
    assert [text.text for text in texts] == ["Au revoir. Vas-y!", "DuNon. "]
    assert [text.starts for text in texts] == [[0, 11], [0, 2]]


@pytest.mark.parametrize("mark", ["", "# newdoc\n"])
def test_ten_sentences_are_a_text_without_marks_or_with_one_at_each(tmp_path, mark):
    one = f"{mark}# text = Ja.\n1\tJa.\tja\tINTJ\t_\t_\t0\troot\t_\t_\n\n"
    (tmp_path / "de_x-ud-dev.conllu").write_text(one * 13)
    (_, texts) = read_folder(tmp_path)["de_x-ud-dev"]
    assert [len(text.starts) for text in texts] == [10, 3]


def test_lists_are_joined_as_their_language_joins(tmp_path):
    (tmp_path / "ja.txt").write_text("はい。\nいいえ。\n")
    (tmp_path / "nl.txt").write_text("Ja.\nNee.\n")
    found = read_folder(tmp_path)
    assert found["ja"][1][0].text == "はい。いいえ。"
    assert found["nl"][1][0].text == "Ja. Nee. "


def test_f1_is_that_of_a_label_for_each_character():
    """The second way: scikit-learn on one label for each character but the first of a text."""
    metrics = pytest.importorskip("sklearn.metrics")
    texts = [MarkedText("x" * 30, [0, 7, 12, 20]), MarkedText("x" * 9, [0]), MarkedText("x", [0])]
    found = [[0, 7, 13, 20, 25], [0, 4], [0]]

    def labels(rows):
        return [
            position in starts
            for text, starts in zip(texts, rows, strict=True)
            for position in range(1, len(text.text))
        ]

    gold = labels([text.starts for text in texts])
    assert f1(*score(texts, found)) == pytest.approx(metrics.f1_score(gold, labels(found)))
    assert score(texts, found) == (2 / 5, 2 / 3)
