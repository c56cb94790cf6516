"""Rules for rows: the reader refuses a block with a row that breaks one, with right hashes."""

import numpy as np
import pytest

from clozeline.columns import POSITIONS, STARTS, UNDO, WEIGHT, Role
from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards import ColumnSpec, DamagedBlock, open_shards
from clozeline.tools.shards.validation.located_rows import read_rows
from tests.shard_sets import IDS, change_manifest, fixed, rows, write_set


@pytest.mark.parametrize(
    ("role", "right", "wrong", "message"),
    [
        (
            POSITIONS,
            [2, 0],
            [3],
            "column below the tokens of input_ids, got 3",
        ),
        (POSITIONS, [2, 0], [0, 900, 1], "column below the tokens of input_ids, got 900"),
        (STARTS, [0, 2], [1, 2], "column that start with 0"),
        (STARTS, [0], [], "one or more column"),
        (STARTS, [0], [0, 3], "column below the tokens of input_ids"),
        (STARTS, [0], [0, 2, 1], "rising column"),
        (
            Role("start", "target_ids"),
            [0, 1, 1],
            [0, 2, 1],
            "rising column",
        ),
        (Role("label", "places"), [7], [7, 7], "as many column as places, got 2"),
        (Role("label", "places", head="mine"), [7], [], "as many column as places, got 0"),
        (Role("label", "none"), [], [7], "as many column as none, got 1"),
        (Role("label", "none", head="mine"), [], [7], "as many column as none, got 1"),
        (Role("row"), [900], [], "expected one column, got 0"),
        (Role("row", below=3), [2], [3], "expected column below 3, got 3"),
        (WEIGHT, [1], [0], "a column above 0"),
        (WEIGHT, [0.5], [np.nan], "a column above 0"),
        (WEIGHT, [0.5], [np.inf], "a column above 0"),
        (WEIGHT, [0.5], [0.5, 0.5], "expected one column"),
        (UNDO, [9, 9], None, ""),
    ],
)
def test_values_are_what_the_role_says(tmp_path, role, right, wrong, message):
    """A set of two rows is written with right hashes; the second one breaks a rule."""
    columns = (
        IDS,
        ColumnSpec("target_ids", "uint16", "list", "", IDS.role),
        ColumnSpec("places", "uint16", "list", "", UNDO),
        ColumnSpec("none", "uint16", "list", "", UNDO),
        ColumnSpec("column", "float32" if role.use == "weight" else "uint16", "list", "", role),
    )

    def write(values):
        lists = {
            "input_ids": [[5, 6, 7]] * 2,
            "target_ids": [[5, 6, 7]] * 2,
            "places": [[1]] * 2,
            "none": [[]] * 2,
            "column": [right, values],
        }
        ragged = {spec.name: Ragged.from_lists(lists[spec.name], spec.dtype) for spec in columns}
        both = RowBatch(fixed(np.arange(2)), ragged)
        return write_set(tmp_path / str(values), [both], columns=columns)

    shards = write(right)
    if role.use == "label" and not role.head and not right:
        # no row of the part has the column, which a mixture may lack
        with pytest.raises(IntegrityError, match="one or more column, got 0 in row 0"):
            read_rows(shards, 0)
    shards.read_block(0)

    if wrong is not None:
        with pytest.raises(DamagedBlock, match=r"00001.arrow: block 0: .* in row 1;") as caught:
            write(wrong).read_block(0, [spec.name for spec in columns])
        assert message in str(caught.value)


@pytest.mark.parametrize(("most", "lengths"), [(8, [3, 0]), (3, [3, 4])])
def test_a_row_is_neither_empty_nor_longer_than_the_manifest_says(tmp_path, most, lengths):
    write_set(tmp_path, [rows([1, 2], lengths)])
    change_manifest(tmp_path, lambda manifest: manifest.update(max_length=most))
    with pytest.raises(DamagedBlock, match=f"1 to {most} input_ids, got {lengths[1]} in row 1 "):
        open_shards(tmp_path).read_block(0)
