"""`report.json` of a stage says what was written to it."""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import version
from pathlib import Path

import pytest

from clozeline.errors import IntegrityError, StorageError
from clozeline.pipeline.clean.stage import CleanStage
from clozeline.pipeline.execution.report import (
    earlier_report,
    read_report,
    write_stage_report,
)
from clozeline.pipeline.execution.unit_record import UnitRecord
from tests.pipeline.clean.cleaning import recipe_for


def test_what_is_written_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "A text."}\n')
    domains = tmp_path / "domains.txt"
    domains.write_text("bad.example\n")
    clean = {"language": None, "filters": [{"name": "url", "domains": [str(domains)]}]}
    stage = CleanStage(recipe_for(str(tmp_path / "a.jsonl"), tmp_path / "out", clean))
    records = [UnitRecord("main", unit, "", "ok", {}, {"a": {"bytes": 5}, "b": {"bytes": 2}}) for unit in range(3)]
    write_stage_report(stage, {"documents_in": 4}, records, 1.25)
    report = read_report(stage.folder / "report.json", "")
    assert {name: report[name] for name in ("counts", "units", "bytes", "seconds")} == {
        "counts": {"documents_in": 4}, "units": 3, "bytes": 21, "seconds": 1.25,
    }  # fmt: skip
    decided = report["deciders"]
    assert (decided["version"], decided["files"]) == (
        stage.version(),
        {str(domains): hashlib.sha256(domains.read_bytes()).hexdigest()},
    )
    packages = decided["packages"]
    assert (packages["python"], packages["numpy"]) == (platform.python_version(), version("numpy"))


def test_a_report_that_is_missing_or_damaged_says_what_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    with pytest.raises(StorageError, match="No such file or directory; run x again"):
        read_report(path, "run x again")
    path.write_text("{")
    with pytest.raises(IntegrityError, match=r"damaged: .*; run x again"):
        read_report(path, "run x again")
    assert earlier_report(path) == {}
