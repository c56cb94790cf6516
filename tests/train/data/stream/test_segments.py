"""Segments of rows, against loops over tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import Manifest
from clozeline.train.data.stream.collate import Collate
from clozeline.train.data.stream.padding import segment_tensors
from tests.shard_sets import IDS, fixed, list_column, objective, write_set
from tests.train.data.stream.test_collate import collated, column

SEGMENTS = list_column("segment_starts")
LANGUAGES = list_column("languages", "uint8")
ROWS = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.booleans(), st.lists(st.booleans(), min_size=4, max_size=4))
def test_tokens_equal_a_slow_loop(rows: list[list[int]], one_code: bool, restarts: list[bool]) -> None:
    """Rows are given as the sizes of their segments; the code of segment s in row r is 10 r + s."""
    lengths = np.array([sum(sizes) for sizes in rows])
    width = int(lengths.max()) + 1
    types, codes, positions = (np.zeros((len(rows), width), np.int64) for _ in range(3))
    for row, sizes in enumerate(rows):
        tokens = [(segment, place) for segment, size in enumerate(sizes) for place in range(size)]
        for place, (segment, own) in enumerate(tokens):
            types[row, place] = segment
            codes[row, place] = 10 * row + (0 if one_code else segment)
            positions[row, place] = own if restarts[row] else place
    columns = {
        "segment_starts": column([np.cumsum([0, *sizes[:-1]]).tolist() for sizes in rows]),
        "languages": column(
            [[10 * row + segment for segment in range(1 if one_code else len(sizes))] for row, sizes in enumerate(rows)]
        ),
    }
    found = segment_tensors(columns, lengths, width, np.array(restarts[: len(rows)]))
    inside = np.arange(width) < lengths[:, None]
    for name, wanted in (("type_ids", types), ("languages", codes), ("position_ids", positions)):
        if name in found or name != "position_ids":
            assert (found[name].numpy() == wanted)[inside].all(), name
    assert ("position_ids" in found) == any(restarts[: len(rows)])


def test_rows_without_segments_have_one_language() -> None:
    found = collated("encoder", {"input_ids": [[1, 7, 2], [1, 2], []], "languages": [[4], [9], []]}, [1, 1, 0])
    assert found["languages"] == [[4] * 3, [9] * 3, [0] * 3]
    assert "type_ids" not in found


def written(folder: Path, lists: dict[str, list[list[int]]], **options: Any) -> Manifest:
    """The manifest of a set of one row."""
    specs = [spec for spec in (IDS, SEGMENTS, LANGUAGES) if spec.name in lists]
    columns = {spec.name: Ragged.from_lists(lists[spec.name], np.dtype(spec.dtype)) for spec in specs}
    rows = Rows(fixed(np.ones(1, np.uint64)), columns)
    return write_set(folder, [rows], columns=specs, objective=objective("encoder", **options)).manifest


def test_each_set_of_a_batch_has_its_own_rule(tmp_path: Path) -> None:
    """Positions restart with the second segment of a translation, never in a pair of sentences."""
    pair = {"input_ids": [[1, 7, 2, 8, 9, 2]], "segment_starts": [[0, 3]], "languages": [[3, 5]]}
    text = {"input_ids": [[1, 7, 7, 7, 7, 2]], "languages": [[4]]}
    sets = [(pair, {"reset_positions": True}), (pair, {}), (text, {})]
    manifests = [written(tmp_path / str(number), lists, **options) for number, (lists, options) in enumerate(sets)]
    columns = {"input_ids": column([lists["input_ids"][0] for lists, _ in sets])}
    for name in ("segment_starts", "languages"):
        columns[name] = column([lists[name][0] if name in lists else [] for lists, _ in sets])
    tensors = Collate.from_manifests(manifests)(columns, np.ones(3, np.float32), np.arange(3))
    found = {name: tensor.tolist() for name, tensor in tensors.items()}
    assert found["position_ids"] == [[0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]]
    assert found["type_ids"] == [[0, 0, 0, 1, 1, 1]] * 2 + [[0] * 6]
    assert found["languages"] == [[3, 3, 3, 5, 5, 5]] * 2 + [[4] * 6]


def test_documents_and_segments_restart_together() -> None:
    lists = {"input_ids": [[1, 7, 2, 8, 9, 2]] * 2, "segment_starts": [[0, 3], []], "document_starts": [[0], [0, 2]]}
    found = collated("encoder", lists, restart_segments=True)
    assert found["position_ids"] == [[0, 1, 2, 0, 1, 2], [0, 1, 0, 1, 2, 3]]
