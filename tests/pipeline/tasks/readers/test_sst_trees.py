"""Trees of the Stanford Sentiment Treebank: the root's class and the words, against nltk's rules in words."""

from __future__ import annotations

import doctest
import random
from pathlib import Path

import pytest

import clozeline.pipeline.tasks.readers.sst_trees
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import LabeledText
from clozeline.pipeline.tasks.readers.sst_trees import sentence_of
from tests.pipeline.tasks.readers.reading import items_of, reader_of, reasons, written

ROWS = ["(3 (2 It) (4 (4 (2 's) (4 great)) (2 .)))", "(2 (2 A) (2 film))", "(0 (1 Really) (0 bad))", "(4 (3 Wow))"]


def drawn_tree(draw: random.Random, words: list[str]) -> str:
    """A tree with any number of branches over words."""
    if len(words) == 1:
        return f"({draw.randrange(5)} {words[0]})"
    cuts = sorted(draw.sample(range(1, len(words)), draw.randint(1, min(3, len(words) - 1))))
    parts = [words[first:last] for first, last in zip([0, *cuts], [*cuts, len(words)], strict=True)]
    return f"({draw.randrange(5)} {' '.join(drawn_tree(draw, part) for part in parts)})"


def test_drawn_trees_give_their_words() -> None:
    draw = random.Random(3)
    for _ in range(200):
        words = [draw.choice(["a", "*", "caf\xe9", "'s", "12", "..."]) for _ in range(draw.randint(1, 12))]
        tree = drawn_tree(draw, words)
        assert sentence_of(tree) == {"label": tree[1], "text": " ".join(words)}
        cut = draw.randrange(1, len(tree))
        assert sentence_of(tree[:cut]) is None, "a part of a tree is none"


@pytest.mark.parametrize(("binary", "labels"), [(False, [3, 2, 0, 4]), (True, [1, None, 0, 1])])
def test_the_root_is_the_class(tmp_path: Path, binary: bool, labels: list[int | None]) -> None:
    items = items_of(reader_of("sst_trees", binary=binary), written(tmp_path, "\n".join(ROWS)))
    texts = ("It 's great .", "A film", "Really bad", "Wow")
    expected = [LabeledText((text,), label, None, index) for index, (text, label) in
                enumerate(zip(texts, labels, strict=True)) if label is not None]  # fmt: skip
    assert [item for item in items if isinstance(item, LabeledText)] == expected
    assert reasons(items) == ({"filtered": 1} if binary else {})
    assert reader_of("sst_trees", binary=binary).facts.name == ("sst2" if binary else "sst5")


def test_every_other_line_has_a_reason(tmp_path: Path) -> None:
    rows = [*ROWS, "(3 It works)", "(5 (2 It) (2 works))", "", "(3 (2 It) (4 works)) (2 .)", "It works"]
    items = items_of(reader_of("sst_trees"), written(tmp_path, "\n".join(rows)))
    assert reasons(items) == {"fields": 4, "blank_line": 1}
    with pytest.raises(ConfigurationError, match=r"line 1: expected a tree such as .*, got 'It works'"):
        reader_of("sst_trees").open(written(tmp_path, "It works\n"))


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(clozeline.pipeline.tasks.readers.sst_trees).failed == 0
