"""Rows that break one rule."""

import re

import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.validation.ragged_checks import LocatedRows
from clozeline.tools.shards.validation.row_rules import check_rows


def assert_names_the_row(manifest, change, message):
    """The rows of a block pass; once the second or third of them is changed, it is named with the rule."""
    shards = open_shards(manifest)
    check_rows(LocatedRows(shards.path, 1, shards.read_block(1)), shards.manifest)
    with pytest.raises(IntegrityError) as caught:
        check_rows(LocatedRows(shards.path, 1, change(shards.read_block(1))), shards.manifest)
    assert message in str(caught.value)
    assert re.search(r"block 1: row [12] \(sample ", str(caught.value))
