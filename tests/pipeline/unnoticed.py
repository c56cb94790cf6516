"""Counters of a run that can be wrong without a contradiction."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clozeline.pipeline.execution.unit_record import UnitRecord
from clozeline.sealed_json import seal
from tests.pipeline.run_counts import check_run


def change_json(path: Path, change: Callable[[Any], object]) -> None:
    """Change a record, or a report as a fault of the program would, which writes it with a right checksum."""
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    del data["checksum"]
    path.write_text(json.dumps(seal(data)), encoding="utf-8")


def numbers(data: dict[str, Any], *above: str) -> list[tuple[str, ...]]:
    """Return the keys that lead to each number."""
    found = []
    for key, value in data.items():
        found += numbers(value, *above, key) if isinstance(value, dict) else [(*above, key)]
    return found


def raise_number(data: Any, keys: tuple[str, ...], by: int = 1) -> None:
    for key in keys[:-1]:
        data = data[key]
    data[keys[-1]] += by


def records(stage: Path) -> list[UnitRecord]:
    return [record for path in (stage / "records").glob("*.json") if (record := UnitRecord.read(path)) is not None]


def overcounted(run: Path, stage: str) -> dict[str, Callable[[], None]]:
    """Return for each counter of a stage what makes one unit count one too many, in its record and in the reports."""
    found: dict[str, Callable[[], None]] = {}
    for record in records(run / stage):
        for keys in numbers(dict(record.counts)):

            def raise_all(record: UnitRecord = record, keys: tuple[str, ...] = keys) -> None:
                raise_number(record.counts, keys)
                record.save(run / stage)
                for path, above in ((run / stage / "report.json", ()), (run / "report.json", ("stages", stage))):
                    change_json(path, lambda data, above=above: raise_number(data, (*above, "counts", *keys)))

            found.setdefault(".".join(keys), raise_all)
    return found


def unnoticed(run: Path, stage: str, chosen: Callable[[str], bool]) -> list[str]:
    """Return the counters of a stage that may count one too many without a contradiction."""
    originals = {path: path.read_bytes() for path in run.rglob("*.json")}
    silent = []
    for name, overcount in overcounted(run, stage).items():
        if chosen(name):
            overcount()
            try:
                check_run(run)
                silent.append(name)
            except AssertionError:
                pass
            for path, content in originals.items():
                path.write_bytes(content)
    return silent
