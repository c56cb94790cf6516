"""Write and read `report.json` of a stage: counts, bytes, seconds, slowest units, and what decided its output."""

import heapq
import platform
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Final

from clozeline.errors import IntegrityError, StorageError
from clozeline.files import parse_json, publish_json
from clozeline.pipeline.execution.stages import Stage
from clozeline.pipeline.execution.unit_record import C, UnitRecord, unit_marker
from clozeline.sealed_json import seal, unseal

REPORT_FORMAT: Final = 1
"""Number in every `report.json`; raised when a key of it gets another meaning."""
# Slowest units that a report lists.
_SLOWEST: Final = 5


def write_stage_report(stage: Stage[Any, C], counts: C, records: Sequence[UnitRecord], seconds: float) -> None:
    """Write `report.json` of a stage from its records, with what decided its output."""
    size = sum(file["bytes"] for record in records for file in record.outputs.values())
    decided = {
        "version": stage.version(),
        "files": dict(sorted(stage.files().items())),
        "packages": _package_versions(),
    }
    content = {
        "format": REPORT_FORMAT, "stage": stage.name, "counts": counts, "units": len(records), "bytes": size,
        "seconds": round(seconds, 3), "slowest": slowest_units(stage.folder, records), "deciders": decided,
    }  # fmt: skip
    publish_json(stage.folder / "report.json", seal(content))


def read_report(path: Path, remedy: str) -> dict[str, Any]:
    """Return the content of a `report.json`; `remedy` is what writes it again, for messages."""
    try:
        data = unseal(parse_json(path.read_text(encoding="utf-8")), path, REPORT_FORMAT)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}; {remedy}") from error
    except (ValueError, AttributeError) as error:
        raise IntegrityError(f"{path}: damaged: {error}; {remedy}") from error
    return data


def earlier_report(path: Path) -> dict[str, Any]:
    """Return the content of a `report.json`, empty where it is missing or damaged; NewerFormatError is raised."""
    try:
        return read_report(path, "")
    except (IntegrityError, StorageError):
        return {}


def slowest_units(folder: Path, records: Iterable[UnitRecord]) -> list[dict[str, Any]]:
    """Return up to five units of a stage, the slowest first, with the seconds from their marker to their record.

    A unit of an earlier start has no marker. No file that later stages read holds a time, so that two runs have equal
    bytes.
    """
    times = []
    for record in records:
        try:
            start = unit_marker(folder, "finished", record.pass_name, record.unit).stat().st_mtime_ns
            end = UnitRecord.path(folder, record.pass_name, record.unit).stat().st_mtime_ns
        except OSError:
            continue
        times.append((max(0, end - start), record))
    slowest = heapq.nlargest(_SLOWEST, times, key=lambda item: item[0])
    return [
        {"pass_name": record.pass_name, "unit": record.unit, "seconds": round(elapsed / 1e9, 3)}
        for elapsed, record in slowest
    ]


@cache
def _package_versions() -> dict[str, str]:
    """Return the versions of Python, of Clozeline and of each package that it needs and that is installed."""
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in requires("clozeline") or []]
    versions = {"python": platform.python_version(), "clozeline": version("clozeline")}
    for name in sorted(set(names)):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # an extra that is not installed
            continue
    return versions
