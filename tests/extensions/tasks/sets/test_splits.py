"""Files of splits, rows that go together, and checks of rows, against slow searches."""

import random
from collections import Counter
from pathlib import Path

import pytest

from clozeline.extensions.tasks.readers import (
    Choices,
    LabeledText,
    Question,
    Rejected,
    SourceTarget,
    TaggedWords,
)
from clozeline.extensions.tasks.readers.glue import GlueReader
from clozeline.extensions.tasks.readers.labeled import LabeledReader
from clozeline.extensions.tasks.readers.trec import TrecReader
from clozeline.extensions.tasks.sets.splits import (
    check_rows,
    exclude_overlaps,
    keys_of,
    split_by_group,
    split_files,
)
from clozeline.pipeline.execution.inputs import SourceFile
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.recipe import InputEntry
from clozeline.pipeline.shards.store import ObjectProperties
from tests.refusals import refused


def files(*names, source="default"):
    entry = InputEntry(path="in", source=source)
    return [
        SourceFile(f"{source}/{name}", Path("in") / name, ObjectProperties(1, "0"), entry, "in")
        for name in names
    ]


def sorted_out(given, reader=GlueReader):
    splits, others = split_files(given, reader)
    return {split: file.source.removeprefix("default/") for split, file in splits.items()}, {
        one.source.removeprefix("default/") for one in others
    }


FOLDERS = LabeledReader(LabeledReader.Options(label="folder"), InputLimits())


@pytest.mark.parametrize(
    ("given", "splits", "others"),
    [
        (["train.tsv.zst", "dev.tsv"], {"dev": "dev.tsv", "train": "train.tsv.zst"}, set()),
        (
            ["train.jsonl", "val.jsonl", "test.jsonl"],
            {"dev": "val.jsonl", "test": "test.jsonl", "train": "train.jsonl"},
            set(),
        ),
        (
            ["train-v1.1.json", "dev-v1.1.json.zst"],
            {"dev": "dev-v1.1.json.zst", "train": "train-v1.1.json"},
            set(),
        ),
        (
            ["in_domain_train.tsv.gz", "in_domain_dev.tsv"],
            {"dev": "in_domain_dev.tsv", "train": "in_domain_train.tsv.gz"},
            set(),
        ),
        (["msr_paraphrase_train.txt"], {"train": "msr_paraphrase_train.txt"}, set()),
        (
            ["train.tsv", "dev_matched.tsv", "dev_mismatched.tsv"],
            {
                "dev_matched": "dev_matched.tsv",
                "dev_mismatched": "dev_mismatched.tsv",
                "train": "train.tsv",
            },
            set(),
        ),
        (
            ["train.tsv", "msr_paraphrase_train.txt", "dev_ids.tsv", "test_de.tsv"],
            {"train": "train.tsv"},
            {"dev_ids.tsv", "msr_paraphrase_train.txt", "test_de.tsv"},
        ),
        (
            ["train.tsv", "README.txt", "training.tsv", "undev.tsv"],
            {"train": "train.tsv"},
            {"undev.tsv", "README.txt", "training.tsv"},
        ),
    ],
)
def test_splits_by_name(given, splits, others):
    assert sorted_out(files(*given)) == (splits, others)


@pytest.mark.parametrize(
    ("given", "reader", "splits", "others"),
    [
        # the first text of folders of folders stands for all
        (
            files(
                "README",
                "test/pos/0.txt",
                "test/neg/3.txt",
                "test/urls.txt",
                "train/pos/1.txt",
                "train/neg/2.txt",
                "train/pos/notes.md",
                "imdb.vocab",
                "extra/pos/0.txt",
            ),
            FOLDERS,
            {"test": "test/neg/3.txt", "train": "train/neg/2.txt"},
            {"README", "extra/pos/0.txt", "imdb.vocab", "test/urls.txt", "train/pos/notes.md"},
        ),
        (
            files("pos/1.txt", "neg/2.txt", source="train"),
            FOLDERS,
            {"train": "train/neg/2.txt"},
            set(),
        ),
        (
            files("TREC_10.label", "train_5500.label", "train_1000.label"),
            TrecReader,
            {"test": "TREC_10.label", "train": "train_5500.label"},
            {"train_1000.label"},
        ),
        # as the library `datasets` saves them: the first part stands for all, and descriptions are
        # no rows
        (
            files(
                "dataset_dict.json",
                "train/dataset_info.json",
                "train/state.json",
                "train/data-00000-of-00002.arrow",
                "train/data-00001-of-00002.arrow",
                "validation/data-00000-of-00001.arrow",
            ),
            LabeledReader,
            {
                "train": "train/data-00000-of-00002.arrow",
                "dev": "validation/data-00000-of-00001.arrow",
            },
            set(),
        ),
        (
            files(
                "text/train-00000-of-00002.parquet",
                "text/train-00001-of-00002.parquet",
                "text/unsupervised-00000-of-00001.parquet",
            ),
            LabeledReader,
            {"train": "text/train-00000-of-00002.parquet"},
            {"text/unsupervised-00000-of-00001.parquet"},
        ),
        # sources that the input names
        (
            [*files("a.tsv", source="train"), *files("train.tsv", source="dev")],
            GlueReader,
            {"dev": "dev/train.tsv", "train": "train/a.tsv"},
            set(),
        ),
        (
            [
                *files("a.tsv", source="test_de"),
                *files("b.tsv", source="dev_zh-hans"),
                *files("c.tsv", source="train"),
            ],
            GlueReader,
            {
                "dev_zh-hans": "dev_zh-hans/b.tsv",
                "test_de": "test_de/a.tsv",
                "train": "train/c.tsv",
            },
            set(),
        ),
        (
            files("a.tsv", source="train_pseudo"),
            GlueReader,
            {"train_pseudo": "train_pseudo/a.tsv"},
            set(),
        ),
    ],
)
def test_splits_of_readers_and_sources(given, reader, splits, others):
    assert sorted_out(given, reader) == (splits, others)


@pytest.mark.parametrize(
    ("given", "reader", "message"),
    [
        (
            files("a/b.txt", "c.txt"),
            FOLDERS,
            r"or name folders train, dev and test, with folders of \.txt files",
        ),
        # the first of tables would stand for all, and a reader of single files would lose a part
        (
            files("train/a/1.txt", "train/a/2.txt"),
            LabeledReader(LabeledReader.Options(label="stars"), InputLimits()),
            "expected files named train",
        ),
        (
            files("train-00000-of-00002.parquet", "train-00001-of-00002.parquet"),
            GlueReader,
            "are both the split 'train'",
        ),
        (
            [*files("train.tsv"), *files("x.tsv", source="train")],
            GlueReader,
            "both the split 'train'",
        ),
        (files("reviews.csv"), GlueReader, r"source: train\}\]' tasks\.split_off='\{dev: 0\.2\}'"),
        *[
            (files("a.tsv", source=label), GlueReader, "expected the name of a split")
            for label in ("train_", "in_domain_dev", "test_de/../x")
        ],
    ],
)
def test_files_of_no_split(given, reader, message):
    with refused(message):
        split_files(given, reader)


SHARES = {"dev": 0.2, "test": 0.3}


def pairs(seed):
    draw = random.Random(seed)
    texts = [(f"Text {draw.randint(0, 150)}", f"text  {draw.randint(0, 150)}") for _ in range(60)]
    return [LabeledText(both, 0, None, index) for index, both in enumerate(texts)]


def plain(text):
    return " ".join(text.lower().split())


def components(items):
    """Rows that are connected by equal texts: one row and all that it reaches, searched row by
    row."""
    left = set(range(len(items)))
    found = []

    while left:
        reached = set()
        waiting = [min(left)]
        while waiting:
            row = waiting.pop()
            reached.add(row)
            mine = {plain(text) for text in items[row].texts}
            waiting += [
                other
                for other in left - reached
                if mine & {plain(text) for text in items[other].texts}
            ]

        found.append(reached)
        left -= reached

    return found


@pytest.mark.parametrize("seed", range(5))
def test_connected_rows_go_together(seed):
    items = pairs(seed)
    splits = split_by_group(items, SHARES, "train", 1)
    parts = components(items)

    assert len(parts) > 3

    for part in parts:
        assert len({splits[row] for row in part}) == 1


def test_shares_are_reached_about():
    items = [LabeledText((f"text {number}",), 0, None, number) for number in range(4000)]
    splits = split_by_group(items, SHARES, "train", 1)
    counts = Counter(splits)

    assert abs(counts["dev"] / 4000 - 0.2) < 0.02
    assert abs(counts["test"] / 4000 - 0.3) < 0.02
    assert counts.keys() == {"train", "dev", "test"}
    assert split_by_group(items, SHARES, "train", 2) != splits
    assert split_by_group(items[::-1], SHARES, "train", 1) == splits[::-1]
    assert split_by_group(items[:1000], SHARES, "train", 1) == splits[:1000]
    assert split_by_group([Rejected("fields", 0)] * 50, {"dev": 0.99}, "train", 1) == ["train"] * 50


def test_documents_go_together_whatever_their_sentences():
    items = [TaggedWords(("same",), (0,), index, f"document {index // 10}") for index in range(400)]
    splits = split_by_group(items, SHARES, "train", 1)
    assert all(len(set(splits[first : first + 10])) == 1 for first in range(0, 400, 10))
    assert set(splits) == {"train", "dev", "test"}


def labeled(seed, count=40):
    draw = random.Random(seed)
    rows = [
        LabeledText(
            (f"text {draw.randint(0, 30)}", f"other {draw.randint(0, 1)}"),
            draw.randint(0, 1),
            None,
            index,
        )
        for index in range(count)
    ]

    return [*rows, Rejected("fields", count)]


@pytest.mark.parametrize("seed", range(4))
def test_counts_equal_slow_searches(seed):
    items = labeled(seed)
    train = labeled(seed + 100, 3)
    rows, learned = (
        [row for row in side if isinstance(row, LabeledText)] for side in (items, train)
    )
    shared = [row for row in rows if any(set(row.texts) & set(other.texts) for other in learned)]
    disagreeing = [
        row
        for row in rows
        if any(row.texts == one.texts and row.label != one.label for one in rows)
    ]

    assert check_rows(items, keys_of(train)) == {
        "also_in_train": len(shared),
        "contradicting": len(disagreeing),
    }
    assert len(shared) == sum(
        one == Rejected("excluded", one.index) for one in exclude_overlaps(items, keys_of(train))
    )
    assert check_rows(items, None) == {"contradicting": len(disagreeing)}


def test_labels_of_each_type_of_row():
    tagged = [
        TaggedWords(words, tags, 0)
        for words, tags in ((("a", "b"), (0, 1)), (("a", "b"), (0, 0)), (("A", "b"), (1, 1)))
    ]
    chosen = [
        Choices("a", ("b", "c"), 0, 0),
        Choices("a", ("b", "c"), 1, 1),
        Choices("a", ("b", "d"), 1, 2),
    ]

    numbers = [LabeledText(("a", "b"), None, 1.0, 0), LabeledText(("a", " b"), None, 2.0, 1)]
    for rows in (tagged, chosen, numbers):
        assert check_rows(rows, None) == {"contradicting": 2}

    assert (
        check_rows([SourceTarget("a", ("b",), "", 0), SourceTarget("a", ("c",), "", 1)], None) == {}
    )
    assert check_rows([Rejected("fields", 0)], set()) == {}

    asked = [Question("who", "a text", (), key, index) for index, key in enumerate("abaca")]
    known = keys_of([Question("why", "A  text", (), "z", 0)])

    assert check_rows(asked, known) == {"also_in_train": 5, "repeated_id": 2}


def test_rows_of_other_files_are_excluded():
    """By a text, whatever its case and spaces, or by a document's name.

    CoNLL's documents have numbers alone.
    """
    rows = [
        LabeledText(("A  b", "c"), 0, None, 0),
        LabeledText(("d", "e"), 0, None, 1),
        Rejected("fields", 2),
        LabeledText(("f", "g"), 0, None, 3, "article"),
    ]

    known = keys_of(
        [LabeledText(("x", "a B"), 0, None, 0), LabeledText(("y", "z"), 0, None, 1, "article")]
    )

    assert exclude_overlaps(rows, known) == [
        Rejected("excluded", 0),
        rows[1],
        rows[2],
        Rejected("excluded", 3),
    ]

    train = keys_of([TaggedWords(("one",), (0,), 0, "document 3")])
    dev = [
        TaggedWords(("two",), (0,), 0, "document 3"),
        TaggedWords(("One",), (0,), 1, "document 4"),
    ]

    assert exclude_overlaps(dev, train) == [dev[0], Rejected("excluded", 1)]
    assert check_rows(dev, train)["also_in_train"] == 1
