"""Rows of several objectives in one batch: each has the labels, weights and attention of its own set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import ShardSet
from clozeline.train.data.stream.phases import phase_of
from tests.shard_sets import IDS, fixed, ids_of, list_column, objective, toy_set, write_set
from tests.train.data.stream.streams import open_stream

POSITIONS = list_column("label_positions")
LABELS = list_column("label_ids")
ATTENTION = list_column("attention", "uint8")
WEIGHT = list_column("label_weight", "float32")
COUNT = list_column("label_count")


def lengths(count: int) -> list[int]:
    return [3 + 5 * n % 7 for n in range(count)]


def facts(name: str, predict_from: str = "same") -> dict[str, Any]:
    found = objective("encoder")
    return {**found, "name": name, "label": name, "frame": {**found["frame"], "predict_from": predict_from}}


def masked_set(folder: Path, *, first: int = 1, previous: str = "previous", weighed: bool = True) -> ShardSet:
    """Labels at places `first` and the last one, 100 and 200 above the ids; weight 1/2, divisor 7."""
    rows = range(1, 31)
    texts = [ids_of(uid, size) for uid, size in zip(rows, lengths(30), strict=True)]
    places = [[first, len(text) - 1] for text in texts]
    columns = {
        "input_ids": Ragged.from_lists(texts, np.uint16),
        "label_positions": Ragged.from_lists(places, np.uint16),
        "label_ids": Ragged.from_lists([[100, 200]] * 30, np.uint16),
    }
    specs = [IDS, POSITIONS, LABELS]
    if weighed:
        columns["label_weight"] = Ragged.from_matrix(np.full((30, 1), 0.5, np.float32))
        columns["label_count"] = Ragged.from_matrix(np.full((30, 1), 7, np.uint16))
        specs += [WEIGHT, COUNT]
    content = Rows(fixed(np.array(rows, np.uint64)), columns)
    return write_set(folder, [content], columns=specs, name="masked", objective=facts("masked", previous))


def causal_set(folder: Path) -> ShardSet:
    texts = [ids_of(uid, size) for uid, size in zip(range(1, 24), lengths(23), strict=True)]
    columns = {
        "input_ids": Ragged.from_lists(texts, np.uint16),
        "attention": Ragged.from_matrix(np.ones((23, 1), np.uint8)),
    }
    content = Rows(fixed(np.arange(1, 24, dtype=np.uint64)), columns)
    options: Any = {"columns": [IDS, ATTENTION], "name": "causal", "objective": facts("causal", "previous")}
    return write_set(folder, [content], **options)


@pytest.mark.parametrize("previous", ["same", "previous"])
def test_each_row_has_what_its_own_set_holds(tmp_path: Path, previous: str) -> None:
    masked, causal = masked_set(tmp_path / "m", previous=previous), causal_set(tmp_path / "c")
    phases = [phase_of((masked,), (), 16), phase_of((causal, masked), (2.0, 1.0), 80), phase_of((causal,))]
    seen = set()
    with open_stream(phases) as stream:
        for _ in range(16):
            for batch in stream.next_step():
                tensors = batch.tensors
                width, labels = tensors["input_ids"].shape[1], []
                for row, (source, block, place) in enumerate(batch.origin.tolist()):
                    if source < 0:
                        assert tensors["label_count"][row] == 0
                        continue
                    text = stream.sources[source].shards.read_block(block).columns["input_ids"][place].tolist()
                    seen.add(source)
                    assert tensors["objective"][row] == source
                    assert tensors["input_ids"][row, : len(text)].tolist() == text
                    if source == 0:
                        shift = previous == "previous"
                        labels += [(row, 1 - shift, 100, 0.5), (row, len(text) - 1 - shift, 200, 0.5)]
                    else:
                        labels += [(row, at, text[at + 1], 1.0) for at in range(len(text) - 1)]
                    assert tensors["label_count"][row] == (7 if source == 0 else len(text) - 1)
                    if "attention" in tensors:
                        assert (tensors["attention"][row], tensors["prefix_length"][row]) == (source, 0)
                found = zip(tensors["label_index"].tolist(), tensors["label_ids"].tolist(),
                            tensors["label_weight"].tolist(), strict=True)  # fmt: skip
                assert [(at // width, at % width, label, weight) for at, label, weight in found] == labels
    assert seen == {0, 1}


def test_one_objective_needs_no_number(tmp_path: Path) -> None:
    with open_stream(masked_set(tmp_path, weighed=False)) as stream:
        tensors = stream.next_step()[0].tensors
    assert not {"objective", "label_weight", "label_count"} & tensors.keys()


def test_a_label_at_the_first_place_has_no_place_before(tmp_path: Path) -> None:
    with (
        open_stream(masked_set(tmp_path, first=0)) as stream,
        pytest.raises(IntegrityError, match="label at position 0"),
    ):
        stream.next_step()


def test_models_of_two_kinds_are_refused(tmp_path: Path) -> None:
    pair = (causal_set(tmp_path / "c"), toy_set(tmp_path / "d", [9], objective=objective("decoder")))
    with pytest.raises(ConfigurationError, match=r"differ in architecture .*: encoder and decoder"):
        open_stream([phase_of(pair)])
