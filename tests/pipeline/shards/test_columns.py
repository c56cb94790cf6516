import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import UNDO, WEIGHT, Feature, Ragged, Rows
from clozeline.pipeline.shards import ColumnSpec, base_columns, feature_columns, write_shard
from clozeline.pipeline.shards.columns import arrow_schema, cut, holds_ids, to_batch
from tests.shard_sets import COLUMNS, fixed, list_column, rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": {}}, r"missing \['input_ids'\]"),
        ({"columns": {"input_ids": Ragged.from_lists([[1], [70000]], np.uint32)}}, "0..65535, got 1..70000"),
        ({"columns": {"input_ids": Ragged.from_lists([[1], [-1]], np.int64)}}, "got -1..1"),
        ({"columns": {"input_ids": Ragged.from_lists([[1]], np.uint16)}}, "expected 2 lists, got 1"),
        ({"fixed": {**fixed(np.arange(2)), "extra": np.zeros(2)}}, r"not declared \['extra'\]"),
        ({"fixed": {**fixed(np.arange(2)), "document_uid": np.zeros((2, 8), np.uint8)}}, "shape"),
    ],
)
def test_rows_that_do_not_fit_their_columns(tmp_path, change, message):
    good = rows([1, 2], 1)
    bad = Rows(**{"fixed": good.fixed, "columns": good.columns, **change})
    with pytest.raises(IntegrityError, match=message):
        write_shard(tmp_path / "x", bad, COLUMNS, block_rows=4)


def test_weights_are_never_rounded_when_written(tmp_path):
    weight = feature_columns([Feature("label_weight", "float32", WEIGHT, "weight")], 1000)
    bad = Rows(fixed(np.arange(1)), {"label_weight": Ragged(np.array([1 / 3]), np.arange(2))})
    with pytest.raises(IntegrityError, match="expected float32, got float64"):
        write_shard(tmp_path / "x", bad, [*base_columns(), *weight], block_rows=4)


def test_wider_arrays_with_small_values_are_stored(tmp_path):
    wide = Rows(fixed(np.arange(2)), {"input_ids": Ragged.from_lists([[1], [65535]], np.int64)})
    narrow = Rows(fixed(np.arange(2)), {"input_ids": Ragged.from_lists([[1], [65535]], np.uint16)})
    assert write_shard(tmp_path / "x", wide, COLUMNS, block_rows=4) == write_shard(
        tmp_path / "y", narrow, COLUMNS, block_rows=4, name="x"
    )


def test_width_of_ids_follows_the_vocabulary():
    features = [Feature("label_ids", "ids", UNDO, ""), Feature("label_positions", "uint16", UNDO, "")]
    assert [spec.dtype for spec in feature_columns(features, 65536)] == ["uint16", "uint16"]
    assert [spec.dtype for spec in feature_columns(features, 65537)] == ["uint32", "uint16"]
    assert [holds_ids(spec) for spec in feature_columns(features, 10)] == [True, False]


@pytest.mark.parametrize("name", ["uint64", "list<uint16>", "fixed_size_binary[16]", "list<uint32>", "uint8"])
def test_types_parse_back(name):
    role = None if "<" not in name else {"use": "label", "of": "y", "below": 3}
    spec = ColumnSpec.parse("x", name, "", role)
    assert (spec.arrow_type, ColumnSpec.parse(**spec.plain())) == (name, spec)


@pytest.mark.parametrize("name", ["int64", "list<fixed_size_binary[16]>", "list<list<uint16>>", "string"])
def test_other_types_are_refused(name):
    with pytest.raises(IntegrityError, match="unknown type"):
        ColumnSpec.parse("x", name, "")


@given(
    st.lists(st.lists(st.integers(0, 255), max_size=5), min_size=1, max_size=8),
    st.sampled_from([np.uint8, np.uint16, np.int64]),
    st.data(),
)
def test_a_batch_holds_the_values_whatever_slice_or_width_they_come_in(lists, dtype, data):
    first = data.draw(st.integers(0, len(lists)))
    specs = [ColumnSpec("code", "uint32", "fixed", ""), list_column("place", "uint8")]
    numbers = np.arange(len(lists), dtype=dtype)
    whole = Rows({"code": numbers}, {"place": Ragged.from_lists(lists, dtype)})
    batch = to_batch(cut(whole, first, len(lists)), specs, arrow_schema(specs, {}))
    batch.validate(full=True)
    assert batch.to_pydict() == {"code": numbers[first:].tolist(), "place": lists[first:]}
    assert [str(kind) for kind in batch.schema.types] == ["uint32", "list<item: uint8 not null>"]


def test_a_list_of_identities_is_no_column():
    with pytest.raises(IntegrityError, match="column x: no shard column is a list of binary16"):
        ColumnSpec("x", "binary16", "list", "")
