"""Tables of Parquet and Arrow, as other programs write them: types of columns, damage, and times
that no row loses."""

import tracemalloc
from functools import partial

import pyarrow as pa
import pyarrow.parquet
import pytest

from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers import RawRecord, detect_reader
from clozeline.pipeline.registries import READERS
from clozeline.pipeline.tables import open_table
from tests.pipeline.captures import counted, read, texts


def write_arrow(table, path, rows=2, new=pa.ipc.new_file, **options):
    with new(str(path), table.schema, **options) as writer:
        writer.write_table(table, max_chunksize=rows)


WRITERS = {"parquet": pa.parquet.write_table, "arrow": write_arrow}


@pytest.fixture(params=sorted(WRITERS))
def table(request, tmp_path):
    """A function that writes a table and gives its path, for each of the two formats."""

    def write(columns):
        path = tmp_path / "table.bin"
        WRITERS[request.param](pa.table(columns), path)
        assert detect_reader(path) == (request.param, False)
        return path

    write.name = request.param
    return write


@pytest.mark.parametrize(
    "kind",
    [
        pa.utf8(),
        pa.large_utf8(),
        pa.dictionary(pa.int32(), pa.utf8()),
    ],
)
def test_rows_become_records(table, kind):
    path = table(
        {
            "text": pa.array(["one", None, "", "two"]).cast(kind),
            "url": ["a", None, "c", "d"],
            "n": [1, 2, 3, 4],
        }
    )

    items = read(path, name=table.name)

    assert texts(items) == ["one", "two"]
    assert counted(items) == {"empty": 2}
    assert [
        (
            item.locator,
            item.locator_type,
            item.url,
            item.extra,
        )
        for item in (items[0], items[3])
    ] == [
        (0, table.name, "a", {"n": 1}),
        (3, table.name, "d", {"n": 4}),
    ]


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.large_binary(),
        pa.binary(2),
    ],
)
def test_binary_utf8_is_text(table, kind):
    items = read(table({"text": pa.array(["ü".encode(), b"\xffx"], kind)}), name=table.name)
    assert texts(items) == ["ü"]
    assert counted(items) == {"bad_utf8": 1}


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([1, 2], "a number"),
        ([["a"]], "a list"),
        ([{"id": "b", "body": {"text": "longer"}}], "an object; did you mean 'text.body.text'"),
        ([True], "a truth value"),
    ],
)
def test_the_type_of_a_column_without_text_is_named(table, values, shown):
    items = read(table({"text": values}), name=table.name)
    assert counted(items) == {"text_type": len(values)}
    assert items[0].detail.startswith(f"'text' is {shown}")


def test_two_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "a.arrow"
    write_arrow(
        pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]), path
    )
    (item,) = read(path, name="arrow")

    assert (item.reason, item.detail) == (
        "schema",
        "two columns have the name 'text'; rename one",
    )


def test_a_missing_column_is_one_malformed_record(table):
    assert counted(read(table({"body": ["x"]}), name=table.name)) == {"schema": 1}
    assert texts(
        read(
            table({"body": ["x"]}),
            name=table.name,
            text_key="body",
        )
    ) == ["x"]


def test_a_broken_file_is_one_malformed_record(table):
    path = table({"text": ["one", "two"]})
    path.write_bytes(path.read_bytes()[:-20])
    assert counted(read(path, name=table.name)) == {"damaged": 1}
    path.write_bytes(b"PAR1ARROW1 and nothing")
    assert counted(read(path, name=table.name)) == {"damaged": 1}


_NS = 10**18 + 1  # 2001-09-09 01:46:40 and a nanosecond
TIMES = {
    "a nanosecond": (pa.array([_NS], pa.timestamp("ns")), "2001-09-09 01:46:40.000000001"),
    "a duration": (pa.array([_NS], pa.duration("ns")), str(_NS)),
    "an unknown zone": (
        pa.array([10**12], pa.timestamp("ms", "Mars/Olympus")),
        "2001-09-09 01:46:40.000",
    ),
    "a known zone": (pa.array([10**12], pa.timestamp("ms", "UTC")), "2001-09-09 01:46:40.000Z"),
    "year 0": (pa.array([-62167219200000], pa.timestamp("ms")), "0000-01-01 00:00:00.000"),
    "in a large list": (pa.array([[_NS]], pa.large_list(pa.duration("ns"))), [str(_NS)]),
    "in a struct": (
        pa.array(
            [{"at": 10**12, "n": 3}],
            pa.struct(
                [
                    ("at", pa.timestamp("ms", "Mars/Olympus")),
                    ("n", pa.int8()),
                ]
            ),
        ),
        {"at": "2001-09-09 01:46:40.000", "n": 3},
    ),
    "in a map": (pa.array([[(7, _NS)]], pa.map_(pa.int8(), pa.duration("ns"))), [[7, str(_NS)]]),
    "in a dictionary": (
        pa.array([_NS], pa.timestamp("ns")).dictionary_encode(),
        "2001-09-09 01:46:40.000000001",
    ),
}


@pytest.mark.parametrize("case", TIMES)
def test_a_time_in_another_column_loses_no_row(table, case):
    """The right texts were written down by hand; the rows around it keep their own values."""
    column, expected = TIMES[case]
    column = pa.concat_arrays([pa.nulls(1, column.type), column, column])

    try:
        path = table({"text": ["a", "b", "c"], "at": column})
    except pa.ArrowNotImplementedError:
        pytest.skip("Parquet has no such column")

    items = read(path, name=table.name)

    assert texts(items) == ["a", "b", "c"]
    assert [item.extra["at"] for item in items] == [None, expected, expected]

    rows = [row for _, row in open_table(path, InputLimits()).rows()]

    assert [row["text"] for row in rows] == ["a", "b", "c"]


@pytest.mark.parametrize("cut", [0, 100])
def test_arrow_streams_are_read_up_to_the_damage(tmp_path, cut):
    path = tmp_path / "table.arrow"
    rows = pa.table({"text": [f"row {number}" for number in range(40)]})
    write_arrow(rows, path, 10, pa.ipc.new_stream)
    path.write_bytes(path.read_bytes()[: -cut or None])
    items = read(path, name=detect_reader(path)[0])

    assert texts(items) == [f"row {number}" for number in range(30 if cut else 40)]
    assert [item.locator for item in items[:30]] == [*range(30)]
    assert counted(items) == ({"damaged": 1} if cut else {})


def test_a_damaged_batch_of_a_file_costs_its_rows_alone(tmp_path):
    path = tmp_path / "table.arrow"
    rows = pa.table({"text": [f"row {number} " + "x" * 200 for number in range(40)]})
    write_arrow(rows, path, 10, options=pa.ipc.IpcWriteOptions(compression="zstd"))
    content = bytearray(path.read_bytes())
    second = [at for at in range(len(content)) if content.startswith(b"\x28\xb5\x2f\xfd", at)][3]
    content[second + 4 : second + 30] = bytes(26)
    path.write_bytes(content)
    items = read(path, name="arrow")

    assert texts(items) == [
        f"row {number} " + "x" * 200 for number in range(40) if not 10 <= number < 20
    ]
    assert counted(items) == {"damaged": 1}


def test_a_damaged_group_costs_its_rows_alone(tmp_path):
    path = tmp_path / "a.parquet"
    rows = [f"row {number} " + "x" * 200 for number in range(1000)]
    pa.parquet.write_table(
        pa.table({"text": rows}), path, row_group_size=256, compression="zstd", use_dictionary=False
    )
    start = pa.parquet.ParquetFile(path).metadata.row_group(2).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 400] = b"\xff" * 400
    path.write_bytes(content)
    items = read(path, name="parquet")

    assert texts(items) == rows[:512] + rows[768:]
    assert counted(items) == {"damaged": 256}
    assert [item.locator for item in items if isinstance(item, RawRecord)] == [
        *range(512),
        *range(768, 1000),
    ]


@pytest.mark.parametrize("write", [pa.parquet.write_table, partial(write_arrow, rows=256)])
def test_values_that_repeat_are_decoded_a_few_at_a_time(tmp_path, write):
    """The file holds one value of 4 MB; all rows together have 1 GB."""
    value = "x" * (1 << 22)
    path = tmp_path / "table.bin"
    write(pa.table({"text": pa.DictionaryArray.from_arrays([0] * 256, [value])}), path)
    reader = READERS.resolve({"name": detect_reader(path)[0]}).build(InputLimits())
    tracemalloc.start()
    sizes = [
        (len(item.text), pa.total_allocated_bytes())
        for item in reader.read(path, 0, path.stat().st_size)
    ]
    peak = tracemalloc.get_traced_memory()[1] + max(size for _, size in sizes)
    tracemalloc.stop()

    assert [length for length, _ in sizes] == [len(value)] * 256
    assert peak < 700e6


def test_a_value_that_is_not_utf8_costs_one_row(tmp_path):
    path = tmp_path / "a.parquet"
    offsets = pa.array([0, 1, 2, 3], pa.int32()).buffers()[1]
    broken = pa.StringArray.from_buffers(3, offsets, pa.py_buffer(b"a\xffb"))
    pa.parquet.write_table(pa.table({"text": broken}), path)
    items = read(path, name="parquet")

    assert texts(items) == ["a", "b"]
    assert counted(items) == {"bad_utf8": 1}
