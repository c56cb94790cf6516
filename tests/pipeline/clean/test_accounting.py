"""Bytes and records are counted twice, apart: what one side loses makes the run fail."""

import pyarrow as pa
import pyarrow.parquet

from clozeline.pipeline.execution.progress import accounting_lines
from clozeline.pipeline.execution.report import write_run_report
from tests.pipeline.captures import responses
from tests.pipeline.clean.cleaning import recipe_for, run_clean

ROWS = [{"text": f"Row {number} of a file."} for number in range(9)]
LINES = "".join(f"Line {number}.\n" for number in range(9)).encode()


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
