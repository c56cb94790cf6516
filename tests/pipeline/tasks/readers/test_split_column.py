"""A column of splits: known names, names that are given, and other values."""

from __future__ import annotations

from clozeline.pipeline.tasks.readers._split_column import SplitColumn


def test_names_of_splits() -> None:
    column = SplitColumn(column="meta.fold", names={"1": "test_de"})
    values = ("Train", "validation", "dev", 1, "holdout", None)
    assert [column.split_of({"meta": {"fold": value}}) for value in values] == [
        "train", "dev", "dev", "test_de", None, None,
    ]  # fmt: skip
