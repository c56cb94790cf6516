"""Bytes and records are counted twice, apart: what one side loses makes the run fail."""

import gzip
import json
import random
from dataclasses import fields

import pyarrow as pa
import pyarrow.parquet
import pytest

from clozeline.errors import PartialFailureError
from clozeline.pipeline.clean.stage import CleanStage
from clozeline.pipeline.execution.report import write_run_report
from clozeline.pipeline.execution.summary_table import accounting_lines
from clozeline.pipeline.ingest.formats.byte_lines import ByteLines
from clozeline.pipeline.ingest.readers import Counted
from clozeline.pipeline.ingest.readers.warc import Warc
from clozeline.registry import find, names
from tests.declarations import declared
from tests.matrices import mark_slow_but
from tests.pipeline.captures import members, record, responses
from tests.pipeline.clean.cleaning import recipe_for, run_clean

ROWS = [{"text": f"Row {number} of a file."} for number in range(9)]
LINES = "".join(f"Line {number}.\n" for number in range(9)).encode()


@pytest.fixture(params=names("clozeline.pipeline.ingest.readers"))
def entry(request, tmp_path):
    """An input for each reader: `FILE` of its own test file, or lines."""
    content = declared("clozeline.pipeline.ingest.readers", request.param, "FILE", LINES)
    for name in ("file", "other"):
        (tmp_path / name).write_bytes(content)
    options = fields(find("clozeline.pipeline.ingest.readers", request.param).Options)
    files = {option.name: str(tmp_path / "other") for option in options if option.metadata.get("file")}
    columns = {option.name: ["text"] for option in options if option.name == "columns"}
    return {"path": str(tmp_path / "file"), "reader": request.param, **files, **columns}


def lossy(original, keep):
    """A generator function whose every third value (or only one) is lost."""

    def read(*arguments):
        yield from (value for number, value in enumerate(original(*arguments)) if keep(number))

    return read


def test_a_reader_that_drops_records_fails(entry, tmp_path, monkeypatch):
    read = run_clean(entry, tmp_path / "whole").counts["records_in"]
    assert read, f"set FILE in tests/pipeline/ingest/readers/test_{entry['reader']}.py to the bytes of a good file"
    reader = find("clozeline.pipeline.ingest.readers", entry["reader"])
    monkeypatch.setattr(reader, "read", lossy(reader.read, lambda number: number % 3))
    with pytest.raises(PartialFailureError, match="do not add up") as failed:
        run_clean(entry, tmp_path / "lossy")
    assert failed.value.exit_code == 65


def test_a_reader_that_repeats_records_without_a_document_fails(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one"}\n{broken\n')
    reader = find("clozeline.pipeline.ingest.readers", "jsonl")
    whole = reader.read

    def twice(*arguments):
        for item in whole(*arguments):
            yield from [item] * (2 if isinstance(item, Counted) else 1)

    monkeypatch.setattr(reader, "read", twice)
    with pytest.raises(PartialFailureError, match="do not add up"):
        run_clean(str(path), tmp_path / "out")


@pytest.mark.parametrize("name", ["jsonl", "jsonl.gz"])
def test_a_format_that_loses_lines_fails(tmp_path, monkeypatch, name):
    data = "\n".join(map(json.dumps, ROWS)).encode()
    path = tmp_path / f"a.{name}"
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    split = ByteLines._split

    def lossy_split(self, pieces, at):
        for number, line in enumerate(split(self, pieces, at)):
            if number == 4:
                self._account.records -= 1
            else:
                yield line

    monkeypatch.setattr(ByteLines, "_split", lossy_split)
    with pytest.raises(PartialFailureError, match="bytes of content"):
        run_clean(str(path), tmp_path / "out")


@pytest.mark.parametrize("pack", mark_slow_but([members], [members, b"".join]))
def test_a_range_that_ends_early_fails(tmp_path, monkeypatch, pack):
    path = tmp_path / "a.warc"
    path.write_bytes(pack(responses(9)))
    whole = Warc._read_records

    def early(self, stream, end, size):
        items = whole(self, stream, end, size)
        for _ in range(3):
            yield next(items)
        return size

    monkeypatch.setattr(Warc, "_read_records", early)
    with pytest.raises(PartialFailureError, match="do not add up"):
        run_clean(str(path), tmp_path / "out")


@pytest.mark.parametrize("pack", [members, b"".join])
def test_ranges_of_damaged_files_add_up(tmp_path, pack):
    draw = random.Random(3)
    for number in range(12):
        content = bytearray(pack([record(draw.randbytes(900).hex().encode()) for _ in range(40)]))
        for _ in range(3):
            at = draw.randrange(len(content))
            content[at : at + draw.randint(0, 600)] = draw.randbytes(draw.randint(0, 600))
        (tmp_path / f"{number}.warc").write_bytes(content)
    done = run_clean(str(tmp_path / "*.warc"), tmp_path / "out", plan={"unit_bytes": 4096})
    assert done.counts["bytes_owned"] == sum(path.stat().st_size for path in tmp_path.glob("*.warc"))


def test_a_file_with_bytes_and_no_record_is_named(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    broken = b"".join(responses(3)).replace(b"WARC/1.0", b"WRAC/1.0")
    (files / "broken.warc").write_bytes(broken)
    (files / "whole.warc").write_bytes(b"".join(responses(3)))
    pa.parquet.write_table(pa.Table.from_pylist([], pa.schema([("text", pa.utf8())])), files / "empty.parquet")
    done = run_clean(str(files), tmp_path / "out")
    size = (files / "empty.parquet").stat().st_size
    assert done.counts["without_records"] == {"default/broken.warc": len(broken), "default/empty.parquet": size}
    assert done.counts["content_skipped"]["resync"] == len(broken)
    page = write_run_report(tmp_path / "out", ["clean"]).read_text(encoding="utf-8")
    assert "<h3>Inputs without a record</h3>" in page
    assert "content skipped" in page
    shown = str(accounting_lines([done.summary]))
    assert f"dropped (bytes): {len(broken):,} without a record in default/broken.warc" in shown


def test_units_of_an_older_version_are_not_compared(tmp_path):

    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one"}\n')
    done = run_clean(str(path), tmp_path / "out")
    new = {"bytes_owned", "bytes_decoded", "bytes_read_twice", "content_bytes", "content_kept", "records_found",
           "records_given"}  # fmt: skip
    CleanStage(recipe_for(str(path), tmp_path / "out")).check({k: v for k, v in done.counts.items() if k not in new})
