"""Questions to list columns, answered by hand."""

from __future__ import annotations

import numpy as np
import pytest

from clozeline.pipeline.rows import Ragged
from clozeline.tools.shards.validation.ragged_checks import (
    as_ranks,
    first_falling,
    first_not_ascending,
    first_outside,
    first_repeated,
    rank_in_row,
    row_of_values,
)


def ragged(*rows: list[int]) -> Ragged:
    return Ragged.from_lists(rows, np.uint16)


def test_rows_and_positions_of_values() -> None:
    column = ragged([7, 8], [], [9])
    assert row_of_values(column).tolist() == [0, 0, 2]
    assert rank_in_row(column).tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("rows", "ascending", "falling", "repeated"),
    [
        (([0, 1], [0]), None, None, None),
        (([5, 9], [1, 0]), 1, 1, None),
        (([0, 1], [], [0, 0]), 2, None, 2),
        (([4, 1, 4], [1, 1]), 0, 0, 0),
    ],
)
def test_the_first_row_that_breaks_a_rule(
    rows: tuple[list[int], ...], ascending: int | None, falling: int | None, repeated: int | None
) -> None:
    column = ragged(*rows)
    assert (first_not_ascending(column), first_falling(column)) == (ascending, falling)
    assert first_repeated(column) == repeated


def test_bounds_belong_to_rows() -> None:
    assert first_outside(ragged([3], [3], []), np.array([4, 3, 0])) == 1
    assert first_outside(ragged([3], [3], []), np.array([4, 4, 0])) is None


def test_values_without_a_rank_are_left_out() -> None:
    found = as_ranks(ragged([2, 0, 1], [0], [1]), np.array([-1, 5, 6]))
    assert [found[row].tolist() for row in range(3)] == [[6, 5], [], [5]]
