from __future__ import annotations

from pathlib import Path

import numpy as np

from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.runs.evaluation.baselines import choice_baselines
from tests.pipeline.task_files import make_choice_sets


def test_a_wrong_word_is_never_taken(tmp_path: Path) -> None:
    """`good` is right wherever it is, at any number, among two choices and among three."""
    tokenizer = load_tokenizer(make_choice_sets(tmp_path).parents[1] / "tokenizer" / "tokenizer")
    a, film, good, bad, plot = (int(one.ids[0]) for one in tokenizer.encode(["a", "film", "good", "bad", "plot"]))
    cls, sep = 2, 3

    def rows(given: list[list[int]]) -> Rows:
        parts = [[[cls, a, film, sep, choice, sep] for choice in choices] for choices in given]
        lists = {
            "input_ids": Ragged.from_lists([[token for part in one for token in part] for one in parts], np.uint16),
            "choice_starts": Ragged.from_lists([[6 * place for place in range(len(one))] for one in parts], np.uint32),
            "choice": Ragged.from_lists([[one.index(good)] for one in given], np.uint16),
        }
        return Rows({}, lists)

    train = rows([[good, bad], [bad, good], [plot, bad, good], [plot, good, bad]] * 5)
    found = choice_baselines(train, rows([[bad, plot, good], [good, bad]]), tokenizer)
    assert found["words"].tolist() == [2, 0]
    assert found["majority"].tolist() == [1, 1]
