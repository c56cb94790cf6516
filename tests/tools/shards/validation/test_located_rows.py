from __future__ import annotations

from pathlib import Path

from clozeline.tools.shards.validation.ragged_checks import LocatedRows
from tests.shard_sets import rows


def test_an_error_names_file_block_row_sample_and_document() -> None:
    content = rows([7, 255])
    content.fixed["variant"][1] = 3
    error = LocatedRows(Path("set/shard.arrow"), 4, content).error(1, "ids beyond 9")
    document = bytes(range(16)).hex()
    assert str(error) == (
        f"set/shard.arrow: block 4: row 1 (sample {255:016x}, variant 3 of document {document}): ids beyond 9"
    )
    assert error.exit_code == 65


def test_rows_of_a_token_set_are_named_by_their_document() -> None:
    content = rows([7])
    for name in ("uid", "variant"):
        del content.fixed[name]  # type: ignore[attr-defined]
    assert "row 0 (document of document 000102" in str(LocatedRows(Path("s"), 0, content).error(0, "x"))
