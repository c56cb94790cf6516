from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from clozeline.pipeline.rows import Ragged
from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.provenance.set_statistics import mean, quantile, tables, tally
from tests.shard_sets import IDS, list_column, rows, toy_set, write_set
from tests.tools.small_run import example_sets


@pytest.mark.parametrize("label", ["masked_lm", "span_corruption"])
def test_counts_agree_with_a_loop_over_rows(shard_sets, label):
    shards = open_shards(example_sets(shard_sets)[label][0])
    found = tally(shards)
    lengths: dict[str, Counter] = {}
    ids: dict[str, Counter] = {}
    languages, variants = Counter(), Counter()
    for block in range(len(shards.index)):
        for row in shards.read_block(block):
            for name, values in row.columns.items():
                lengths.setdefault(name, Counter())[len(values)] += 1
                if name in found.ids:
                    ids.setdefault(name, Counter()).update(values.tolist())
            languages[int(row.fixed["language"])] += 1
            variants[int(row.fixed["variant"])] += 1
    as_counter = {name: Counter(dict(enumerate(counts.tolist()))) for name, counts in found.lengths.items()}
    assert {name: +counts for name, counts in as_counter.items()} == lengths
    assert {name: +Counter(dict(enumerate(counts.tolist()))) for name, counts in found.ids.items()} == ids
    assert set(ids) == {name for name in lengths if name.endswith("ids")}
    assert dict(enumerate(found.codes["language"].tolist())) == languages
    assert +Counter(dict(enumerate(found.codes["variant"].tolist()))) == variants


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


def test_a_column_is_no_class_once_a_row_has_two_numbers(tmp_path):
    ones = rows([1, 2, 3, 4])
    ones.columns["kind"] = Ragged.from_lists([[7], [], [7], [2]], np.uint8)
    twos = rows([5])
    twos.columns["kind"] = Ragged.from_lists([[7, 7]], np.uint8)
    kind = list_column("kind", "uint8")
    shards = write_set(tmp_path / "ones", [ones], columns=(IDS, kind))
    assert tally(shards).numbers["kind"].tolist() == [0, 0, 1, 0, 0, 0, 0, 2]
    for order in ([ones, twos], [twos, ones]):
        shards = write_set(tmp_path / f"{len(order[0])}", order, columns=(IDS, kind))
        assert tally(shards).numbers == {}


def test_rows_in_quarantine_are_not_counted(tmp_path):
    shards = toy_set(tmp_path, [9])
    (tmp_path / "quarantine.json").write_text(
        json.dumps([{"shard": shards.manifest.shards[0].path, "block": 1, "reason": "spike"}])
    )
    shards = open_shards(tmp_path)
    assert tally(shards).lengths["input_ids"].tolist() == [0] * 8 + [5]
    (facts, *_) = tables(shards, tally(shards), None)
    assert facts.rows[-1] == ("rows in quarantine, in 1 block, not counted below", 4)


def test_quantiles_and_means_of_counts():
    values = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3])
    counts = np.bincount(values)
    assert mean(counts) == values.mean()
    for share in (0.1, 0.5, 0.9, 1.0):
        smallest = min(value for value in values if (values <= value).mean() >= share)
        assert quantile(counts, share) == smallest
    assert quantile(np.array([0, 2, 1, 1]), 0.5) == 1
