"""Names and blocks of shards follow from the configuration alone."""

import numpy as np
import pytest

from clozeline.pipeline.rows import FIXED_COLUMNS, UNDO, Feature
from clozeline.pipeline.shards.layout import block_rows_of, shard_name
from tests.shard_sets import rows

IDS, PLACES = Feature("input_ids", "ids", UNDO, ""), Feature("label_positions", "uint16", UNDO, "")


@pytest.mark.parametrize("length", [20, 510, 1022, 4094, 100_000])
@pytest.mark.parametrize("id_bytes", [2, 4])
def test_auto_blocks_are_the_largest_that_fit_into_four_megabytes(length, id_bytes):
    found = block_rows_of("auto", [IDS, IDS, PLACES], length, id_bytes)
    row = sum(array[:1].nbytes for array in rows([1]).fixed.values()) + 2 * length * id_bytes
    assert list(rows([1]).fixed) == list(FIXED_COLUMNS)
    fitting = [size for size in (1920, 960, 480, 240, 120, 60) if size * row <= 4 << 20]
    assert found == (fitting[0] if fitting else 60)


def test_a_configured_number_stays():
    assert block_rows_of(7, [IDS], 10**6, np.dtype(np.uint32).itemsize) == 7


def test_names_sort_like_numbers():
    names = [shard_name(shard, 12_000, "tar") for shard in (0, 9, 10, 11_999)]
    assert names == sorted(names)
    assert names[0] == "shard-00000-of-12000.tar"
