"""Batches hold each row once and at most their places."""

import pytest

from clozeline.model.scoring.batches import group_by_length


@pytest.mark.parametrize("tokens", [1, 10, 64, 10**6])
def test_batches_hold_each_row_once(tokens):
    lengths = [3 + number * number % 11 for number in range(60)] + [90]
    batches = [*group_by_length(lengths, tokens)]

    assert sorted(row for batch in batches for row in batch) == [*range(61)]

    for batch in batches:
        places = len(batch) * max(lengths[row] for row in batch)
        assert places <= tokens or len(batch) == 1
        padded = places - sum(lengths[row] for row in batch)
        assert padded == 0 or min(lengths[row] for row in batch) * 4 <= tokens

    assert [*group_by_length([], tokens)] == []
