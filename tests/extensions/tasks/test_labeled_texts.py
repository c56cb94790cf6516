"""The labeled texts of labs: equal classes, no test row in training, and words that say a part."""

import json
from collections import Counter

import numpy as np
import pytest

from clozeline import HOME
from clozeline.extensions.tasks.task_heads._bag_of_words import fit_predict

FOLDER = HOME / "configs/textbook/labeled"
TESTS = {"questions": ("test", "plays"), "authors": ("test", "other")}


def read(name):
    """Return texts and labels."""
    lines = (FOLDER / f"{name}.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [row["text"] for row in rows], [row["label"] for row in rows]


@pytest.mark.parametrize("task", TESTS)
def test_a_test_text_is_in_no_other_file_and_length_says_nothing(task):
    names = [f"{task}_{split}" for split in ("train", *TESTS[task])]
    counts = Counter(text for name in names for text in read(name)[0])

    assert set(counts.values()) == {1}

    for name in names:
        texts, labels = read(name)
        lengths = Counter(
            (len(text.split()), label) for text, label in zip(texts, labels, strict=True)
        )

        assert all(
            lengths[length, label] == count
            for (length, _), count in lengths.items()
            for label in set(labels)
        )
        assert len(texts) == 500 or name.endswith("train")


@pytest.mark.parametrize("task", TESTS)
def test_a_bag_of_words_is_right_in_seven_of_ten_rows(task):
    texts, labels = read(f"{task}_train")
    answers = np.array(labels) == labels[0]

    def share_right(split):
        scored, gold = read(f"{task}_{split}")
        found = fit_predict(
            [(text,) for text in texts], answers.astype(int), [(text,) for text in scored]
        )
        return np.mean(found == (np.array(gold) == labels[0]))

    same, other = map(share_right, TESTS[task])

    assert same == pytest.approx(0.7, abs=0.06)
    assert 0.55 < other < same
