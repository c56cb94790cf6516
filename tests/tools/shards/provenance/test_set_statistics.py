"""The counts and tables of a set, recomputed from its rows."""

import json
from collections import Counter

import numpy as np
import pytest

from clozeline.pipeline.rows import Ragged
from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.provenance.set_statistics import tables, tally
from tests.shard_sets import IDS, list_column, toy_set, write_set
from tests.shard_sets import rows as rows_of
from tests.tools.small_run import example_sets


@pytest.fixture(scope="module")
def made(shard_sets):
    shards = open_shards(example_sets(shard_sets)["unilm_mixture"][0])
    found = {one.title.partition(" (")[0]: one for one in tables(shards, tally(shards), None)}
    return shards, [row for block in range(len(shards.index)) for row in shards.read_block(block)], found


def test_lengths_are_those_of_the_rows(made):
    _, rows, found = made
    for name, smallest, mean, median, ninety, almost, largest, total in found["lengths"].rows:
        lengths = sorted(len(row[name]) for row in rows)
        assert (smallest, largest, total) == (lengths[0], lengths[-1], sum(lengths))
        assert mean == pytest.approx(sum(lengths) / len(rows))
        assert [median, ninety, almost] == [lengths[-(-len(rows) * per // 100) - 1] for per in (50, 90, 99)]


def test_labels_and_coverage_are_those_of_the_rows(made):
    shards, rows, found = made
    tokens, labels = (sum(len(row[name]) for row in rows) for name in ("input_ids", "label_ids"))
    ((name, count, _, share),) = found["labels"].rows
    assert (name, count) == ("label_ids", labels)
    assert share == pytest.approx(100 * labels / tokens)
    kinds = found["input at label positions"].rows
    assert sum(row[1] for row in kinds) == labels
    assert sum(row[2] for row in kinds) == pytest.approx(100)
    for name, used, share, half, ninety, almost, frequent in found["vocabulary coverage"].rows:
        counts = Counter(token for row in rows for token in row[name].tolist())
        assert used == len(counts)
        assert share == pytest.approx(100 * used / shards.manifest.tokenizer.vocab_size)
        ordered = np.cumsum(sorted(counts.values(), reverse=True))
        assert [half, ninety, almost] == [
            int(np.flatnonzero(100 * ordered >= per * ordered[-1])[0]) + 1 for per in (50, 90, 99)
        ]
        best = max(counts.values())
        assert counts[int(frequent.split()[0])] == best


def test_shares_are_those_of_the_rows(made):
    shards, rows, found = made
    parts = Counter(str(row.fixed["part"]) for row in rows)
    assert dict(found["rows by part"].rows) == parts
    (language,) = found["tokens by language"].rows
    assert language == ("en", sum(len(row["input_ids"]) for row in rows), 100)
    facts = dict(next(one for title, one in found.items() if title == shards.manifest.name).rows)
    assert (facts["rows"], facts["shards"]) == (len(rows), len(shards.manifest.shards))
    assert facts["bytes a row"] == pytest.approx(facts["bytes"] / len(rows))


def test_columns_of_a_few_numbers_are_classes(tmp_path):
    content = rows_of([1, 2, 3, 4, 5])
    for name, values in (("kind", [7, 7, 2, 7, 2]), ("single", [1] * 5)):
        content.columns[name] = Ragged.from_lists([[value] for value in values], np.uint8)
    columns = (IDS, *(list_column(name, "uint8") for name in ("kind", "single")))
    shards = write_set(tmp_path, [content], columns=columns)
    found = {one.title: one.rows for one in tables(shards, tally(shards), None)}
    assert found["rows by kind (kind)"] == (("2", 2, 40), ("7", 3, 60))
    assert not [title for title in found if "single" in title], "one value is not a class"


def test_labels_and_classes_agree_with_a_loop_over_rows(shard_sets):
    shards = open_shards(example_sets(shard_sets)["unilm_mixture"][0])
    found = tally(shards)
    kinds, attention = Counter(), Counter()
    for block in range(len(shards.index)):
        for row in shards.read_block(block):
            attention.update(row["attention"].tolist())
            for place, label in zip(row["label_positions"], row["label_ids"], strict=True):
                there = row["input_ids"][place]
                kinds[0 if there == shards.manifest.tokenizer.special_ids["mask"] else 1 if there == label else 2] += 1
    assert dict(enumerate(found.labels.tolist())) == kinds
    assert min(kinds.values()) > 0
    assert +Counter(dict(enumerate(found.numbers["attention"].tolist()))) == attention
    assert "input_ids" not in found.numbers
    assert "label_positions" not in found.numbers


def test_rows_in_quarantine_are_not_counted(tmp_path):
    shards = toy_set(tmp_path, [9])
    (tmp_path / "quarantine.json").write_text(
        json.dumps([{"shard": shards.manifest.shards[0].path, "block": 1, "reason": "spike"}])
    )
    shards = open_shards(tmp_path)
    assert tally(shards).lengths["input_ids"].tolist() == [0] * 8 + [5]
    (facts, *_) = tables(shards, tally(shards), None)
    assert facts.rows[-1] == ("rows in quarantine, in 1 block, not counted below", 4)
