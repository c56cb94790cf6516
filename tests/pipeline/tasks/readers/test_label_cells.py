"""Cells of labels, by the examples of their docstrings."""

from __future__ import annotations

import doctest

import pytest

from clozeline.pipeline.tasks.readers import _labels
from clozeline.pipeline.tasks.readers._labels import are_numbers, cell_text, class_indices, number_of


def test_examples() -> None:
    assert doctest.testmod(_labels).failed == 0


def test_what_is_a_label_and_what_a_number() -> None:
    assert [cell_text(value) for value in (None, float("nan"), 1.5, "  ")] == [None, None, "1.5", None]
    with pytest.raises(ValueError, match="holds"):
        cell_text(["a"])
    assert [number_of(value) for value in ("1e2", " 3 ", "nan", "inf", True, None, "x")] == [
        100.0, 3.0, None, None, None, None, None,
    ]  # fmt: skip
    assert [are_numbers(names) for names in (["1", "2.5"], ["1", "2"], ["1.5", "x"])] == [True, False, False]


def test_integers_that_are_names_are_no_indices() -> None:
    assert class_indices(["5", "1"]) == {"5": 0, "1": 1}
    assert class_indices({"a": "x", "b": "y", "c": "x"}) == {"a": 0, "b": 1, "c": 0}
