"""Fields in which two manifests differ, each by its path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clozeline.tools.shards.rewriting.manifest_differences import differences
from tests.shard_sets import IDS, toy_set


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({}, set()),
        ({"block_rows": 5}, {"block_rows"}),
        ({"languages": ("en", "de")}, {"languages"}),
        ({"columns": (type(IDS)("input_ids", "uint32", "list", "token ids"),)}, {"columns"}),
    ],
)
def test_only_what_differs_is_named(tmp_path: Path, change: dict[str, Any], fields: set[str]) -> None:
    first = toy_set(tmp_path / "first", [9], languages=("en",)).manifest
    second = toy_set(tmp_path / "second", [9], **{"languages": ("en",), **change}).manifest
    found = differences(first, second)
    sizes = {"shards", "totals", "index", "max_block_bytes", "rows_per_shard"}  # these follow from the rows
    assert {one.root for one in found} - sizes == fields
    assert [(one.left, one.right) for one in differences(second, first)] == [(one.right, one.left) for one in found]
