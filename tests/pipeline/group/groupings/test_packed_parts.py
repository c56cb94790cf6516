"""Rows of packed samples that are cut into parts of drawn lengths."""

import numpy as np
import pytest

from clozeline.pipeline.group.groupings import Context, GroupingSpec, MinimumRow, build_grouping
from clozeline.pipeline.group.groupings._grouping import PartSampler
from clozeline.pipeline.kernels.rates import MILLION
from clozeline.seeding import (
    MIXTURE,
    kernel_base,
    kernel_keys,
    random_bits,
    random_bits_of,
    sample_uid,
)
from tests.pipeline.corruption_cases import vocabulary
from tests.pipeline.token_rows import random_documents

WORDS = vocabulary(1000)
PARTS = ((9, 500_000), (14, 300_000), (30, 200_000))


def group(rows, name, parts, **options):
    spec = GroupingSpec.of(
        name, {"length": max(length for length, _ in parts), "parts": parts, **options}
    )
    grouped = build_grouping(spec, WORDS).group(rows, MinimumRow(), Context(spec.label, 5))
    return grouped.rows, grouped.counts


def test_a_part_ends_where_the_next_begins():
    """A row whose draw equals a bound is of the part after it."""
    uids = np.array([12345], np.uint64)
    number = ((random_bits_of(kernel_base(7, "label", 0), 12345, MIXTURE, 0) >> 32) * MILLION) >> 32
    for bound, part in ((number, 1), (number + 1, 0)):
        sampler = PartSampler(((9, bound), (14, MILLION - bound)), 14, "label", 7)
        assert sampler.draw_rows(uids)[0].tolist() == [sampler.draw_row(12345)[0]] == [part]


def drawn_part(row_uid, label):
    key = kernel_keys(
        5,
        label,
        np.array([row_uid], np.uint64),
        np.zeros(1, np.uint16),
    )
    number = ((int(random_bits(key, MIXTURE, 1)[0, 0]) >> 32) * MILLION) >> 32
    return sum(number >= bound for bound in (500_000, 800_000))


@pytest.mark.parametrize("separator", ["none", "sep"])
def test_packed_rows_equal_a_plain_loop(separator):
    rows = random_documents(80, 60, seed=2)
    found, counts = group(rows, "packed", PARTS, separator=separator)
    label = GroupingSpec.of("packed", {"length": 30, "parts": PARTS, "separator": separator}).label
    stream = []
    places = []

    for document in rows:
        ids = [
            *document["token_ids"].tolist(),
            *([2] if separator == "sep" and len(document["token_ids"]) else []),
        ]
        name = document.fixed["document_uid"].tobytes(), int(document.fixed["copy"])
        places += [(*name, offset) for offset in range(len(ids))]
        stream += ids

    place = 0

    for row in found:
        uid = sample_uid(*places[place], label)
        part = drawn_part(uid, label)
        assert (int(row.fixed["uid"]), int(row.fixed["part"])) == (uid, part)
        assert row["ids"].tolist() == stream[place : place + PARTS[part][0]]
        place += PARTS[part][0]

    assert place >= len(stream)
    assert counts["tokens_in_samples"] == len(rows.columns["token_ids"].values)
