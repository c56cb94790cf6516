"""No two splits share a text or a document, against a slow search of connected rows."""

from __future__ import annotations

import random

import pytest

from clozeline.pipeline.tasks.readers import LabeledText, Rejected, TaggedWords, TaskItem
from clozeline.pipeline.tasks.splits import exclude_overlaps, keys_of, split_by_group
from tests.pipeline.tasks.readers.reading import items_of, published, reader_of, with_data

SHARES = {"dev": 0.2, "test": 0.3}


def pairs(seed: int, count: int = 60) -> list[LabeledText]:
    draw = random.Random(seed)
    return [
        LabeledText((f"Text {draw.randint(0, 150)}", f"text  {draw.randint(0, 150)}"), 0, None, index)
        for index in range(count)
    ]


def plain(text: str) -> str:
    return " ".join(text.lower().split())


def components(items: list[LabeledText]) -> list[set[int]]:
    """Rows that are connected by equal texts: one row and all that it reaches, searched row by row."""
    left, found = set(range(len(items))), []
    while left:
        reached, waiting = set(), [min(left)]
        while waiting:
            row = waiting.pop()
            reached.add(row)
            mine = {plain(text) for text in items[row].texts}
            waiting += [other for other in left - reached if mine & {plain(text) for text in items[other].texts}]
        found.append(reached)
        left -= reached
    return found


@pytest.mark.parametrize("seed", range(5))
def test_connected_rows_go_together(seed: int) -> None:
    items = pairs(seed)
    splits = split_by_group(items, SHARES, "train", 1)
    parts = components(items)
    assert len(parts) > 3
    for part in parts:
        assert len({splits[row] for row in part}) == 1


def test_shares_are_reached_about() -> None:
    items: list[TaskItem | Rejected] = [LabeledText((f"text {number}",), 0, None, number) for number in range(4000)]
    splits = split_by_group(items, SHARES, "train", 1)
    assert abs(splits.count("dev") / 4000 - 0.2) < 0.02
    assert abs(splits.count("test") / 4000 - 0.3) < 0.02
    assert splits.count("train") + splits.count("dev") + splits.count("test") == 4000
    assert split_by_group(items, SHARES, "train", 2) != splits
    assert split_by_group(items[::-1], SHARES, "train", 1) == splits[::-1]
    assert split_by_group(items[:1000], SHARES, "train", 1) == splits[:1000]


def test_documents_go_together_whatever_their_sentences() -> None:
    items = [TaggedWords(("same",), (0,), index, f"document {index // 10}") for index in range(400)]
    splits = split_by_group(items, SHARES, "train", 1)
    assert all(len(set(splits[first : first + 10])) == 1 for first in range(0, 400, 10))
    assert set(splits) == {"train", "dev", "test"}


def test_refused_rows_stay() -> None:
    assert split_by_group([Rejected("fields", 0)] * 50, {"dev": 0.99}, "train", 1) == ["train"] * 50


def test_rows_of_other_files_are_excluded() -> None:
    """By a text, whatever its case and spaces, or by a document."""
    rows = [LabeledText(("A  b", "c"), 0, None, 0), LabeledText(("d", "e"), 0, None, 1), Rejected("fields", 2),
            LabeledText(("f", "g"), 0, None, 3, "article")]  # fmt: skip
    others = [LabeledText(("x", "a B"), 0, None, 0), LabeledText(("y", "z"), 0, None, 1, "article")]
    known = keys_of(others)
    assert exclude_overlaps(rows, known) == [Rejected("excluded", 0), rows[1], rows[2], Rejected("excluded", 3)]


@pytest.mark.data
@with_data
@pytest.mark.parametrize(
    ("task", "file", "shared"),
    [
        ("mrpc", "MRPC/msr_paraphrase_train.txt.zst", 11),
        ("stsb", "STS-B/train.tsv.zst", 20),
        ("rte", "RTE/train.tsv.zst", 25),
    ],
)
def test_recurring_sentences_of_real_files(task: str, file: str, shared: int) -> None:
    """No test row holds a trained sentence; dealt alone, this share of them would."""
    items = items_of(reader_of("glue", task=task), published(f"glue/{file}"))

    def leaked(splits: list[str]) -> float:
        train = {
            plain(text) for item, split in zip(items, splits, strict=True) if split == "train" for text in item.texts
        }
        test = [item for item, split in zip(items, splits, strict=True) if split == "test"]
        return sum(any(plain(text) in train for text in item.texts) for item in test) / len(test)

    assert leaked(split_by_group(items, {"test": 0.2}, "train", 1)) == 0
    draw = random.Random(0)
    assert abs(100 * leaked([draw.choices(("train", "test"), (4, 1))[0] for _ in items]) - shared) < 5
