"""Spans: lengths drawn until they reach a total, merged spans, and ends of documents, against plain
loops."""

from itertools import groupby, pairwise

import numpy as np
import pytest

from clozeline.pipeline.kernels.spans import (
    clip_to_documents,
    count_noise_before,
)
from clozeline.pipeline.rows import Ragged


def longest_part(begin, size, bounds):
    """The longest run of a span's tokens with one document, the first of several.

    An empty span stays.
    """
    document = [sum(bound <= token for bound in bounds) for token in range(begin, begin + size)]
    parts = [(begin, 0)]
    position = begin
    for _, tokens in groupby(document):
        parts.append((position, length := len(list(tokens))))
        position += length

    return max(parts, key=lambda part: part[1])


def layout(seed):
    """Spans that do not overlap, empty ones among them, over documents of one and more tokens."""
    random = np.random.RandomState(seed)
    bounds = np.cumsum([0, *random.randint(1, 9, 12)]).tolist()
    cuts = np.sort(random.choice(bounds[-1] + 1, 16, replace=False)).tolist()
    begins = cuts[::2]
    return (
        begins,
        [int(random.randint(0, end - begin + 1)) for begin, end in pairwise([*begins, bounds[-1]])],
        bounds,
    )


@pytest.mark.parametrize("seed", range(40))
def test_the_longest_part_of_each_span_is_left(seed):
    begins, sizes, bounds = layout(seed)
    found = clip_to_documents(
        np.array(begins),
        np.array(sizes),
        np.array(bounds[:-1]),
    )
    wanted = [longest_part(begin, size, bounds) for begin, size in zip(begins, sizes, strict=True)]
    assert list(zip(*(part.tolist() for part in found), strict=True)) == wanted


@pytest.mark.parametrize("seed", range(10))
def test_noise_before_documents_counts_from_the_start_of_the_row(seed):
    """Also where a row ends with an empty span, which is not of the next row."""
    rows = [layout(8 * seed + row) for row in range(8)]
    spans = [
        clip_to_documents(np.array(begins), np.array(sizes), np.array(ends[:-1]))
        for begins, sizes, ends in rows
    ]
    documents = Ragged.from_lists([bounds[:-1] for _, _, bounds in rows], np.uint16)
    starts = Ragged.from_lists([begins for begins, _ in spans], np.uint16)
    found = count_noise_before(documents, starts, np.concatenate([sizes for _, sizes in spans]))
    before = [
        [size for begin, size in zip(*row, strict=True) if begin < bound]
        for row, (_, _, bounds) in zip(spans, rows, strict=True)
        for bound in bounds[:-1]
    ]

    assert found[0].tolist() == [len(sizes) for sizes in before]
    assert found[1].tolist() == [sum(sizes) for sizes in before]
