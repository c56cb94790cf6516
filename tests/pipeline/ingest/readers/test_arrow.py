import pyarrow as pa
import pyarrow.parquet

from clozeline.pipeline.ingest.readers import detect
from tests.pipeline.captures import counted, read, texts

ROWS = pa.table({"text": [f"Row {number} of a file." for number in range(9)]})


def file_of(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


FILE = file_of(ROWS)


def test_arrow_streams_are_read_like_files(tmp_path):
    path = tmp_path / "table.arrow"
    rows = pa.table({"text": ["one", "two", "three"]})
    with pa.ipc.new_stream(str(path), rows.schema) as writer:
        writer.write_table(rows, max_chunksize=2)
    items = read(path, name=detect(path)[0])
    assert texts(items) == ["one", "two", "three"]
    assert [item.locator for item in items] == [0, 1, 2]


def test_rows_before_the_damage_of_a_stream_are_given(tmp_path):
    path = tmp_path / "table.arrow"
    rows = pa.table({"text": [f"row {number}" for number in range(40)]})
    with pa.ipc.new_stream(str(path), rows.schema) as writer:
        writer.write_table(rows, max_chunksize=10)
    path.write_bytes(path.read_bytes()[:-100])
    items = read(path, name="arrow")
    assert texts(items) == [f"row {number}" for number in range(30)]
    assert items[-1].reason == "damaged"


def test_a_damaged_batch_of_a_file_costs_its_rows_alone(tmp_path):
    path = tmp_path / "table.arrow"
    rows = pa.table({"text": [f"row {number} " + "x" * 200 for number in range(40)]})
    with pa.ipc.new_file(str(path), rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(rows, max_chunksize=10)
    content = bytearray(path.read_bytes())
    second = [at for at in range(len(content)) if content.startswith(b"\x28\xb5\x2f\xfd", at)][3]
    content[second + 4 : second + 30] = bytes(26)
    path.write_bytes(content)
    items = read(path, name="arrow")
    assert texts(items) == [f"row {number} " + "x" * 200 for number in range(40) if not 10 <= number < 20]
    assert counted(items) == {"damaged": 1}


def test_batches_of_compressed_buffers_and_several_columns(tmp_path):
    rows = pa.table({"n": range(9), "body": [str(number) * 50 for number in range(9)]})
    path = tmp_path / "table.feather"
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(str(path), rows.schema, options=options) as writer:
        writer.write_table(rows, max_chunksize=2)
    items = read(path, name=detect(path)[0], text_key="body")
    assert [(item.text, item.extra) for item in items] == [(str(n) * 50, {"n": n}) for n in range(9)]
