"""The lowest values over ranks, against a stable sort of all values."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from clozeline.extensions.compression.registries import METHODS
from clozeline.extensions.compression.selection import (
    StructureOptions,
    choose_best,
    choose_lowest,
    choose_share,
)
from tests.refusals import refused

VALUES = st.lists(
    st.sampled_from([-2.0, -0.5, -0.0, 0.0, 1e-30, 0.5, 3.0, 1e30]) | st.floats(-4, 4, width=32)
)


def by_sorting(values, groups, counts):
    """The first `counts` of a stable sort of each group, in the order of the parameters."""
    chosen = [[False] * len(own) for own in values]

    for group, count in enumerate(counts):
        order = [
            (value, n, i)
            for n, own in enumerate(values)
            if groups[n] == group
            for i, value in enumerate(own)
        ]
        for _, n, i in sorted(order, key=lambda entry: entry[0])[:count]:
            chosen[n][i] = True

    return chosen


@given(st.lists(VALUES, min_size=1, max_size=4), st.data())
def test_the_lowest_of_each_group_of_equal_ones_the_first(values, data):
    groups = [data.draw(st.integers(0, 1)) for _ in values]
    sizes = [
        sum(len(own) for own, of in zip(values, groups, strict=True) if of == group)
        for group in (0, 1)
    ]
    counts = [data.draw(st.integers(0, size)) for size in sizes]
    masks = choose_lowest(
        [torch.tensor(own, dtype=torch.float32) for own in values], groups, counts
    )

    assert [mask.tolist() for mask in masks] == by_sorting(values, groups, counts)


@given(VALUES, VALUES, st.data())
def test_ranks_choose_what_one_process_does(first, second, data):
    """Two ranks as threads: each parameter is cut between them."""
    values = [first, second]
    cuts = [data.draw(st.integers(0, len(own))) for own in values]
    count = data.draw(st.integers(0, len(first) + len(second)))
    tensors = [torch.tensor(own, dtype=torch.float32) for own in values]
    shares = [
        [own[:cut] for own, cut in zip(tensors, cuts, strict=True)],
        [own[cut:] for own, cut in zip(tensors, cuts, strict=True)],
    ]
    masks = in_step(shares, [0, 0], [count])
    joined = [torch.cat([masks[0][n], masks[1][n]]).tolist() for n in (0, 1)]

    assert joined == by_sorting(values, [0, 0], [count])


def in_step(shares, groups, counts):
    """Call every rank in a thread of its own; a barrier adds up what they exchange."""
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    size = len(shares)
    sent = {}
    barrier = Barrier(len(shares))

    def call(rank):
        def total(numbers):
            sent[rank] = numbers.clone()
            barrier.wait(10)
            result = torch.stack([sent[other] for other in range(size)]).sum(0)
            barrier.wait(10)
            return result

        return choose_lowest(shares[rank], groups, counts, rank, size, total)

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(call, range(size)))


@given(
    st.lists(VALUES, min_size=1, max_size=4),
    st.floats(0.01, 0.99),
    st.sampled_from(["local", "global"]),
)
def test_a_share_is_of_each_matrix_or_of_all_together_and_rounded_to_the_nearest(
    values, share, scope
):
    sizes = [len(own) for own in values]
    groups = range(len(values)) if scope == "local" else [0] * len(values)
    counts = [int(share * size + 0.5) for size in (sizes if scope == "local" else [sum(sizes)])]
    assume(all(abs(share * size % 1 - 0.5) > 1e-9 for size in (*sizes, sum(sizes))))
    masks = choose_share(
        [torch.tensor(own, dtype=torch.float32) for own in values], sizes, share, scope
    )

    assert [mask.tolist() for mask in masks] == by_sorting(values, list(groups), counts)


@given(total=st.integers(1, 40), group=st.integers(1, 4), sparsity=st.floats(0.01, 0.99))
def test_a_share_keeps_entire_groups_and_at_least_one(total, group, sparsity):
    kept = StructureOptions(sparsity=sparsity).count_kept(total * group, "heads", group)
    assert kept % group == 0
    assert group <= kept <= total * group
    assert abs(kept - (1 - sparsity) * total * group) <= group


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(1, 12))
def test_the_best_stay_and_of_equal_ones_the_first(scores, count):
    chosen = choose_best(torch.tensor(scores, dtype=torch.float64), count).tolist()
    expected = sorted(sorted(range(len(scores)), key=lambda index: (-scores[index], index))[:count])
    assert chosen == expected


@pytest.mark.parametrize(
    "options",
    [{}, {"keep": 2, "sparsity": 0.5}, {"sparsity": 0}, {"sparsity": 1.0}, {"sparsity": -0.1}],
)
@pytest.mark.parametrize("method", ["heads", "rows", "magnitude"])
def test_either_a_count_or_a_share_in_0_1(method, options):
    with refused(r"keep|sparsity"):
        METHODS.resolve({"name": method, **options})
