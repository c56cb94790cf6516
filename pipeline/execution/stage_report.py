"""Write and read `report.json` of a stage: counts, bytes, seconds, slowest units, and what decided its output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from clozeline.errors import IntegrityError, StorageError
from clozeline.files import parse_json, publish_json
from clozeline.pipeline.execution.deciders import Deciders
from clozeline.pipeline.execution.edit_samples import EditSamples, merge_edits
from clozeline.pipeline.execution.slow_units import slowest_units
from clozeline.pipeline.execution.unit_record import Counts, UnitRecord
from clozeline.sealed_json import seal, unseal

REPORT_FORMAT: Final = 1
"""Number in every `report.json`; raised when a key of it gets another meaning."""


@dataclass(frozen=True)
class StageFacts:
    """The content of a stage's `report.json`."""

    name: str
    folder: Path
    counts: Mapping[str, Any]
    units: int
    bytes: int
    seconds: float
    edits: EditSamples
    slowest: Sequence[Mapping[str, Any]] = ()
    deciders: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def read(folder: Path) -> StageFacts:
        """Read the report of a stage that is complete."""
        data = read_report(folder / "report.json", f"run `clozeline {folder.name}` again, which writes it")
        numbers = (data["counts"], data["units"], data["bytes"], data["seconds"])
        more = (data.get("edits", {}), data.get("slowest", ()), data.get("deciders", {}))
        return StageFacts(folder.name, folder, *numbers, *more)

    @property
    def documents(self) -> Path:
        return self.folder / "documents"


def read_report(path: Path, remedy: str) -> dict[str, Any]:
    """Return the content of a `report.json`; `remedy` is what writes it again, for messages."""
    try:
        data = unseal(parse_json(path.read_text(encoding="utf-8")), path, REPORT_FORMAT)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}; {remedy}") from error
    except (ValueError, AttributeError) as error:
        raise IntegrityError(f"{path}: damaged: {error}; {remedy}") from error
    if data.get("format") != REPORT_FORMAT:
        raise IntegrityError(f"{path}: format {data.get('format')}, this version reads {REPORT_FORMAT}; {remedy}")
    return data


def earlier_report(path: Path) -> dict[str, Any]:
    """Return the content of a `report.json`, empty where it is missing or damaged; NewerFormatError is raised."""
    try:
        return read_report(path, "")
    except (IntegrityError, StorageError):
        return {}


def write_stage_report(
    folder: Path, name: str, counts: Counts, records: Sequence[UnitRecord], seconds: float, deciders: Deciders
) -> None:
    """Write `report.json` of a stage from its records, with what decided its output."""
    size = sum(file["bytes"] for record in records for file in record.outputs.values())
    facts = {"stage": name, "counts": counts, "units": len(records), "bytes": size, "seconds": round(seconds, 3)}
    edits = merge_edits(record.edits for record in records)
    more = {"slowest": slowest_units(folder, records), "deciders": deciders, **({"edits": edits} if edits else {})}
    content = {"format": REPORT_FORMAT, **facts, **more}
    publish_json(folder / "report.json", seal(content))
