"""Columns of sets: rows that fit them, widths that follow the vocabulary, and further columns of
the same rows."""

import numpy as np
import pyarrow as pa
import pytest

from clozeline.columns import STARTS, UNDO, WEIGHT, Feature, Role
from clozeline.errors import IntegrityError
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.rows import FIXED_COLUMNS, Ragged, RowBatch
from clozeline.pipeline.shards import (
    ColumnSpec,
    DamagedBlock,
    base_columns,
    feature_columns,
    open_shards,
    write_manifest,
    write_shard,
)
from clozeline.pipeline.shards.block import holds_ids
from clozeline.pipeline.shards.column_set import (
    JoinedShards,
    identities,
    token_columns,
)
from clozeline.pipeline.shards.layout import Splits, block_rows_of, is_heldout
from clozeline.tools.shards.validate_shards import validate
from tests.pipeline.corruption_cases import vocabulary
from tests.pipeline.token_sets import recipe, run_stage, write_token_set
from tests.refusals import refused
from tests.shard_sets import (
    COLUMNS,
    TOKENIZER,
    TOKENS,
    change_manifest,
    fixed,
    objective,
    ordered,
    rows,
    write_set,
)

IDS = Feature("input_ids", "ids", UNDO, "")
PLACES = Feature("label_positions", "uint16", UNDO, "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": {}}, r"missing \['input_ids'\]"),
        (
            {"columns": {"input_ids": Ragged.from_lists([[1], [70000]], np.uint32)}},
            "0..65535, got 1..70000",
        ),
        ({"columns": {"input_ids": Ragged.from_lists([[1], [-1]], np.int64)}}, "got -1..1"),
        (
            {"columns": {"input_ids": Ragged.from_lists([[1]], np.uint16)}},
            "expected 2 lists, got 1",
        ),
        ({"fixed": {**fixed(np.arange(2)), "extra": np.zeros(2)}}, r"undeclared \['extra'\]"),
        ({"fixed": {**fixed(np.arange(2)), "document_uid": np.zeros((2, 8), np.uint8)}}, "shape"),
    ],
)
def test_rows_that_do_not_fit_their_columns(tmp_path, change, message):
    good = rows([1, 2], 1)
    bad = RowBatch(**{"fixed": good.fixed, "columns": good.columns, **change})
    with pytest.raises(IntegrityError, match=message):
        write_shard(tmp_path / "x", bad, COLUMNS, block_rows=4)


def test_weights_are_never_rounded_when_written(tmp_path):
    weight = feature_columns([Feature("label_weight", "float32", WEIGHT, "weight")], 1000)
    bad = RowBatch(fixed(np.arange(1)), {"label_weight": Ragged(np.array([1 / 3]), np.arange(2))})
    with pytest.raises(IntegrityError, match="expected float32, got float64"):
        write_shard(tmp_path / "x", bad, [*base_columns(), *weight], block_rows=4)


@pytest.mark.parametrize(
    "name", ["uint64", "list<uint16>", "fixed_size_binary[16]", "list<uint32>", "uint8"]
)
def test_types_parse_back_and_others_are_refused(name):
    role = None if "<" not in name else {"use": "label", "of": "y", "below": 3}
    spec = ColumnSpec.parse("x", name, "", role)

    assert (spec.arrow_type, ColumnSpec.parse(**spec.as_dict())) == (name, spec)

    for other in ("int64", "list<fixed_size_binary[16]>", "list<list<uint16>>", "string"):
        with pytest.raises(IntegrityError, match="unknown type"):
            ColumnSpec.parse("x", other, "")

    with pytest.raises(IntegrityError, match="column x: a shard cannot hold a list of binary16"):
        ColumnSpec("x", "binary16", "list", "")

    for role in (TOKENS, STARTS, Role("label", "input_ids", below="vocabulary")):
        with pytest.raises(IntegrityError, match=r"column x: .* whole numbers, got float32"):
            ColumnSpec("x", "float32", "list", "", role)


# Where an id no longer fits into 16 bits
# ------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "width"), [(65_536, "uint16"), (65_537, "uint32")])
def test_every_id_survives_every_stage(tmp_path, size, width):
    """From token documents to examples.

    And nothing takes an id that the vocabulary does not have.
    """
    assert [spec.dtype for spec in feature_columns([IDS, PLACES], size)] == [width, "uint16"]
    assert [holds_ids(spec) for spec in feature_columns([IDS, PLACES], 10)] == [True, False]

    plain, paired = (token_columns(size, pairs=pairs) for pairs in (False, True))

    assert (paired[: len(plain)], [spec.name for spec in paired[len(plain) :]]) == (
        plain,
        ["target_ids", "target_language"],
    )
    assert {spec.dtype for spec in paired if spec.name in ("token_ids", "target_ids")} == {width}

    tokens = write_token_set(tmp_path, [60_000, 90_000, 110_000], shards=1, words=vocabulary(size))
    made = recipe(
        tmp_path,
        [
            {"name": "masked_lm", "max_length": 130},
            {"name": "span_corruption", "input_length": 130, "container": "tar"},
        ],
        heldout=0.0,
    )

    run_stage(made, "group")
    run_stage(made, "corrupt")

    for name in ("masked_lm", "span_corruption"):
        shards = open_shards(tmp_path / "corrupt" / name / "train")
        samples = tmp_path / "group" / shards.manifest.parents[0].name

        assert validate(shards.path, samples).restored == len(shards)

        ids = [column for column in shards.columns if "ids" in column.name]

        assert {column.dtype for column in ids} == {width}

        blocks = [shards.read_block(block) for block in range(len(shards.index))]

        assert (
            max(int(one.columns[column.name].values.max()) for one in blocks for column in ids)
            == size - 1
        )

    folder = tmp_path / "encode"
    with pa.ipc.open_file(str(folder / "shard-00000-of-00001.arrow")) as reader:
        column = reader.read_all()["token_ids"]

    assert str(column.type) == f"list<item: {width} not null>"
    np.testing.assert_array_equal(column[0].values.to_numpy(), tokens.columns["token_ids"][0])

    change_manifest(folder, lambda manifest: manifest["tokenizer"].update(vocab_size=size - 1))

    with pytest.raises(DamagedBlock, match=f"expected t.*_ids below {size - 1}, got {size - 1}"):
        open_shards(folder).read_block(0)


# Tables of a token set
# ------------------------------------------------------------------------------------------------


def test_identities_keep_zeros_at_their_ends():
    uids = [bytes(16), b"a" * 15 + b"\0", bytes(range(16))]
    found = identities(pa.chunked_array([uids[:1], [], uids[1:]], pa.binary(16)))
    assert [row.tobytes() for row in found] == uids


# Names, blocks and splits
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [20, 510, 1022, 4094, 100_000])
@pytest.mark.parametrize("id_bytes", [2, 4])
def test_auto_blocks_are_the_largest_that_fit_into_four_megabytes(length, id_bytes):
    found = block_rows_of("auto", [IDS, IDS, PLACES], length, id_bytes)
    row = sum(array[:1].nbytes for array in rows([1]).fixed.values()) + 2 * length * id_bytes

    assert list(rows([1]).fixed) == list(FIXED_COLUMNS)

    fitting = [size for size in (1920, 960, 480, 240, 120, 60) if size * row <= 4 << 20]

    assert found == (fitting[0] if fitting else 60)
    assert block_rows_of(7, [IDS], 10**6, id_bytes) == 7


def test_held_out_documents_stay_held_out_at_larger_fractions():
    uids = [number.to_bytes(16, "big") for number in range(2000)]
    at = {
        share: {uid for uid in uids if is_heldout(uid, share, 1)} for share in (0.0, 0.05, 0.2, 1.0)
    }

    assert at[0.0] == set()
    assert at[0.05] < at[0.2] < at[1.0] == set(uids)
    assert 330 < len(at[0.2]) < 470
    assert {uid for uid in uids if is_heldout(uid, 0.2, 2)} != at[0.2]


@pytest.mark.parametrize(
    ("shards", "fraction", "heldout"), [(8, 0.0, 0), (8, 0.01, 1), (8, 0.25, 2), (1, 0.9, 1)]
)
def test_a_set_has_training_shards_and_a_share_of_held_out_ones(shards, fraction, heldout):
    splits = Splits(shards, fraction)

    assert splits.heldout == heldout

    assert splits.items() == [("train", shards)] + ([("heldout", heldout)] if heldout else [])


# Column set
# --------------------------------------------------------------------------------------------------


@pytest.fixture
def shards(tmp_path):
    """Two shards of 11 and 6 rows, in blocks of 4."""
    parts = [ordered(range(1, 12)), ordered(range(20, 26))]
    return write_set(tmp_path / "set", parts, objective=objective("encoder"), kind="examples")


def write_columns(folder, shards, *, name="score", rows=None, **changes):
    folder.mkdir()
    spec = ColumnSpec(name, "float16", "list", name, UNDO)
    infos = []

    for shard in range(len(shards.manifest.shards)):
        blocks = [shards.read_block(block) for block in np.flatnonzero(shards.index.shard == shard)]
        ids = [block.columns["input_ids"] for block in blocks]
        parts = [
            RowBatch({}, {name: Ragged((one.values / 2).astype(np.float16), one.offsets)})
            for one in ids
        ]
        content = RowBatch.concatenate(parts)
        keep = np.arange(len(content) if rows is None else rows)
        path = folder / f"shard-{shard}.arrow"
        infos.append(write_shard(path, content.take(keep), [spec], block_rows=4))

    facts = {
        "name": "scores",
        "kind": "columns",
        "seed": 0,
        "tokenizer": TOKENIZER,
        "columns": [spec],
        "block_rows": 4,
        "container": "arrow",
        "codec": "none",
        "shards": infos,
        "output": Output(folder),
        "parents": [{"name": "set", "digest": shards.digest, "role": "rows"}],
        **changes,
    }

    write_manifest(folder, **facts)
    return open_shards(folder)


def test_columns_are_read_with_their_rows(shards, tmp_path):
    joined = JoinedShards(shards, [write_columns(tmp_path / "columns", shards)])

    assert [spec.name for spec in joined.columns] == [
        *[spec.name for spec in shards.columns],
        "score",
    ]
    assert joined.digest == shards.digest

    for block in range(len(shards.index)):
        plain = shards.read_block(block)
        rows = joined.read_block(block)
        for name, values in plain.fixed.items():
            np.testing.assert_array_equal(rows.fixed[name], values)
        ids = plain.columns["input_ids"]

        np.testing.assert_array_equal(rows.columns["input_ids"].values, ids.values)
        np.testing.assert_array_equal(
            rows.columns["score"].values, np.asarray([one / 2 for one in ids.values])
        )
        np.testing.assert_array_equal(rows.columns["score"].offsets, ids.offsets)
        assert rows.columns["score"].values.dtype == np.float16
        assert set(joined.read_block(block, ["input_ids"]).columns) == {"input_ids"}
        assert set(joined.read_block(block, ["score"]).columns) == {"score"}


def test_damage_of_a_column_set_is_noticed(shards, tmp_path):
    columns = write_columns(tmp_path / "columns", shards)
    entry = columns.index
    path = columns.shard_path(0)
    raw = bytearray(path.read_bytes())
    raw[int(entry.offset[1]) + int(entry.length[1]) - 3] ^= 1
    path.write_bytes(raw)
    joined = JoinedShards(shards, [columns])
    joined.read_block(0)
    with pytest.raises(DamagedBlock, match=r"columns/shard-0\.arrow"):
        joined.read_block(1)
    joined.read_block(1, ["input_ids"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"parents": [{"name": "old", "digest": "0" * 64, "role": "rows"}]},
            r"columns of old \(digest 0000",
        ),
        ({"variants": 3}, "3 variants, 17 rows in 5 blocks, .* has 1 variants"),
        ({"rows": 5}, "1 variants, 10 rows in 4 blocks, .* 17 rows in 5 blocks"),
        ({"name": "input_ids"}, "another set has the column input_ids too"),
    ],
)
def test_columns_of_other_rows_are_refused(shards, tmp_path, changes, message):
    with refused(message):
        JoinedShards(shards, [write_columns(tmp_path / "columns", shards, **changes)])


def test_samples_and_other_kinds_are_refused(shards, tmp_path):
    parts = [ordered(range(1, 12)), ordered(range(20, 26))]
    samples = write_set(tmp_path / "samples", parts, kind="samples", objective=None)
    with refused("online corruption draws other labels"):
        JoinedShards(samples, [write_columns(tmp_path / "columns", shards)])
    with refused("expected a column set, got examples"):
        JoinedShards(shards, [shards])


def test_the_content_of_columns_is_part_of_their_digest(shards, tmp_path):
    first, same, other = (
        JoinedShards(shards, [write_columns(tmp_path / name, shards, config=config)])
        for name, config in (
            ("a", {"k": 1}),
            ("b", {"k": 1}),
            ("c", {"k": 2}),
        )
    )
    assert first.columns_digest == same.columns_digest != other.columns_digest
