"""Files of a token set: widths follow the vocabulary, tables hold their rows, counts are found from any set."""

import numpy as np
import pyarrow as pa
import pytest

from clozeline.pipeline.shards.token_set import (
    DOCUMENTS_SCHEMA,
    TOKEN_COUNTS_SCHEMA,
    find_token_counts,
    identities,
    token_columns,
    write_table,
)


@pytest.mark.parametrize(("size", "ids"), [(65_536, "uint16"), (65_537, "uint32")])
def test_ids_are_as_wide_as_the_vocabulary_needs(size, ids):
    plain, paired = (token_columns(size, pairs=pairs) for pairs in (False, True))
    assert paired[: len(plain)] == plain
    assert {spec.dtype for spec in paired if spec.name in ("token_ids", "target_ids")} == {ids}
    assert [spec.name for spec in paired[len(plain) :]] == ["target_ids", "target_language"]


def test_identities_keep_zeros_at_their_ends():
    uids = [bytes(16), b"a" * 15 + b"\0", bytes(range(16))]
    found = identities(pa.chunked_array([uids[:1], [], uids[1:]], pa.binary(16)))
    assert [row.tobytes() for row in found] == uids


def test_a_table_depends_on_its_rows_alone(tmp_path):
    count = 70_000
    columns = {"uid": [n.to_bytes(16, "big") for n in range(count)], "source": ["a"] * count, "url": [None] * count}
    numbers = {name: list(range(count)) for name in ("offset", "length", "tokens")}
    table = pa.table({**columns, **numbers, "language": ["en"] * count}).select(DOCUMENTS_SCHEMA.names)
    parts = pa.concat_tables([table.slice(0, 3), table.slice(3)])
    for name, one in (("whole", table.cast(DOCUMENTS_SCHEMA)), ("parts", parts.cast(DOCUMENTS_SCHEMA))):
        write_table(tmp_path / name, one.combine_chunks() if name == "parts" else one, DOCUMENTS_SCHEMA)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "parts").read_bytes()
    assert pa.ipc.open_file(tmp_path / "parts").num_record_batches == 2
    assert pa.ipc.open_file(tmp_path / "parts").read_all().equals(table.cast(DOCUMENTS_SCHEMA))


def test_counts_are_found_in_the_nearest_folder_above(tmp_path):
    manifest = tmp_path / "run/corrupt/masked_lm/train/manifest.json"
    assert find_token_counts(manifest) is None
    for folder, first in (("", 5), ("run/", 7)):
        path = tmp_path / f"{folder}encode/token_counts.arrow"
        path.parent.mkdir(parents=True)
        counts = np.arange(first, first + 4, dtype=np.uint64)
        write_table(path, pa.table({"id": np.arange(4, dtype=np.uint32), "count": counts}), TOKEN_COUNTS_SCHEMA)
        found = find_token_counts(manifest)
        assert found is not None
        assert found.tolist() == counts.tolist()
