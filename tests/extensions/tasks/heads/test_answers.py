"""Spans against all pairs of places."""

import pytest
import torch

from clozeline.extensions.tasks.heads._answers import best_spans

INF = torch.inf


def best_of_all(starts, ends, longest):
    """The best of all pairs; of equal ones that with the earlier end, then the shorter one."""
    found = None

    for last in range(len(ends)):
        for first in range(last, max(-1, last - longest), -1):
            if found is None or starts[first] + ends[last] > found[0]:
                found = starts[first] + ends[last], first, last

    return found


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("longest", [None, 1, 2, 3, 9, 20])
def test_the_best_span_is_that_of_all_pairs(longest, ties):
    draw = torch.Generator().manual_seed(4)
    shape = (60, 9)
    starts, ends = (
        (
            torch.randint(0, 3, shape, generator=draw)
            if ties
            else torch.randn(shape, generator=draw)
        ).double()
        for _ in range(2)
    )

    starts[torch.rand(shape, generator=draw) < 0.3] = -INF
    found = zip(*(part.tolist() for part in best_spans(starts, ends, longest)), strict=True)
    for row, answer in enumerate(found):
        if starts[row].isfinite().any():
            assert answer == best_of_all(starts[row].tolist(), ends[row].tolist(), longest or 9), (
                row
            )
