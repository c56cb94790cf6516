"""`report.json` of a stage says what was written to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.errors import IntegrityError, StorageError
from clozeline.pipeline.execution.deciders import Deciders
from clozeline.pipeline.execution.stage_report import StageFacts, earlier_report, read_report, write_stage_report
from clozeline.pipeline.execution.unit_record import UnitRecord

DECIDERS: Deciders = {"version": 3, "algorithms": {"filters/a": 2}, "files": {}, "packages": {"numpy": "1"}}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    records = [UnitRecord("main", unit, "", "ok", {}, {"a": {"bytes": 5}, "b": {"bytes": 2}}) for unit in range(3)]
    write_stage_report(tmp_path, "clean", {"documents_in": 4}, records, 1.25, DECIDERS)
    facts = StageFacts.read(tmp_path)
    assert (facts.counts, facts.units, facts.bytes, facts.seconds) == ({"documents_in": 4}, 3, 21, 1.25)
    assert (facts.deciders, facts.slowest, facts.edits) == (DECIDERS, [], {})


def test_a_report_that_is_missing_or_damaged_says_what_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    with pytest.raises(StorageError, match="No such file or directory; run x again"):
        read_report(path, "run x again")
    path.write_text("{")
    with pytest.raises(IntegrityError, match=r"damaged: .*; run x again"):
        read_report(path, "run x again")
    assert earlier_report(path) == {}
