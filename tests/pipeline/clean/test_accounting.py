"""Bytes and records are counted twice, apart: what one side loses makes the run fail."""

import random
from dataclasses import fields

import pyarrow as pa
import pyarrow.parquet
import pytest

from clozeline.pipeline.execution.progress import accounting_lines
from clozeline.pipeline.execution.report import write_run_report
from clozeline.registry import find, names
from tests.declarations import declared
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


@pytest.mark.parametrize("pack", [members, b"".join])
def test_ranges_of_damaged_files_lose_no_record(tmp_path, pack):
    draw = random.Random(3)
    for number in range(12):
        content = bytearray(pack([record(draw.randbytes(900).hex().encode()) for _ in range(40)]))
        for _ in range(3):
            at = draw.randrange(len(content))
            content[at : at + draw.randint(0, 600)] = draw.randbytes(draw.randint(0, 600))
        (tmp_path / f"{number}.warc").write_bytes(content)
    done = run_clean(str(tmp_path / "*.warc"), tmp_path / "out", plan={"unit_bytes": 4096})
    whole = run_clean(str(tmp_path / "*.warc"), tmp_path / "whole")
    assert done.counts["malformed"]["http"] >= whole.counts["malformed"]["http"] > 0


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
    page = write_run_report(recipe_for(str(files), tmp_path / "out"), ["clean"]).read_text(encoding="utf-8")
    assert "without a record in default/broken.warc" in page
    shown = str(accounting_lines([done.summary]))
    assert f"dropped (bytes): {len(broken):,} without a record in default/broken.warc" in shown
