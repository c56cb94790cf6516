import pyarrow as pa
import pyarrow.parquet
import pytest

from clozeline.pipeline.ingest.readers import detect
from tests.pipeline.captures import counted, read, texts


def write_arrow(table, path):
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


WRITERS = {"parquet": pa.parquet.write_table, "arrow": write_arrow}


@pytest.fixture(params=sorted(WRITERS))
def table(request, tmp_path):
    """A function that writes a table and gives its path, for each of the two formats."""

    def write(columns):
        path = tmp_path / "table.bin"
        WRITERS[request.param](pa.table(columns), path)
        assert detect(path) == (request.param, False)
        return path

    write.name = request.param
    return write


@pytest.mark.parametrize("kind", [pa.utf8(), pa.large_utf8(), pa.dictionary(pa.int32(), pa.utf8())])
def test_rows_become_records(table, kind):
    path = table(
        {"text": pa.array(["one", None, "", "two"]).cast(kind), "url": ["a", None, "c", "d"], "n": [1, 2, 3, 4]}
    )
    items = read(path, name=table.name)
    assert texts(items) == ["one", "two"]
    assert counted(items) == {"no_text": 1, "empty": 1}
    assert [(item.locator, item.kind, item.url, item.extra) for item in (items[0], items[3])] == [
        (0, table.name, "a", {"n": 1}),
        (3, table.name, "d", {"n": 4}),
    ]


def test_a_column_of_another_type_is_counted_per_row(table):
    assert counted(read(table({"text": [1, 2]}), name=table.name)) == {"text_type": 2}


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(2)])
def test_binary_utf8_is_text(table, kind):
    items = read(table({"text": pa.array(["ü".encode(), b"\xffx"], kind)}), name=table.name)
    assert texts(items) == ["ü"]
    assert counted(items) == {"bad_utf8": 1}


@pytest.mark.parametrize(
    ("values", "shown"),
    [([1], "int64"), ([["a"]], "list<"), ([{"a": "b"}], "struct<a: string>"), ([True], "bool"), ([1.5], "double")],
)
def test_the_type_of_a_column_without_text_is_named(table, values, shown):
    (item,) = read(table({"text": values}), name=table.name)
    assert item.reason == "text_type"
    assert item.lacks.startswith(f"column 'text' has the type {shown}")


def test_two_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "a.arrow"
    write_arrow(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]), path)
    (item,) = read(path, name="arrow")
    assert (item.reason, item.lacks) == ("schema", "two columns have the name 'text'; rename one")


def test_a_missing_column_is_one_malformed_record(table):
    assert counted(read(table({"body": ["x"]}), name=table.name)) == {"schema": 1}
    assert texts(read(table({"body": ["x"]}), name=table.name, text_key="body")) == ["x"]


def test_a_broken_file_is_one_malformed_record(table):
    path = table({"text": ["one", "two"]})
    path.write_bytes(path.read_bytes()[:-20])
    assert counted(read(path, name=table.name)) == {f"{table.name}_error": 1}
    path.write_bytes(b"PAR1ARROW1 and nothing")
    assert counted(read(path, name=table.name)) == {f"{table.name}_error": 1}
