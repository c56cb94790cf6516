"""Write and read the reports of a run: `report.json` of each stage, and `report.html`."""

import platform
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Final

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.files import choose_page_path, publish_json, publish_text, read_json
from clozeline.pipeline.execution.plan import Plan
from clozeline.pipeline.execution.report_page import run_page
from clozeline.pipeline.execution.stages import StageSummary, stage_of
from clozeline.pipeline.execution.unit_record import UnitRecord
from clozeline.pipeline.recipe import Recipe

REPORT_FORMAT: Final = 1
"""Format number of every `report.json`; raised when a key changes its meaning."""
_NAME: Final = "report.json"


def write_stage_report(folder: Path, summary: StageSummary, records: Sequence[UnitRecord]) -> None:
    """Write `report.json` of a stage, with the versions of packages."""
    content = {
        "format": REPORT_FORMAT,
        "stage": summary.name,
        "counts": summary.counts,
        "made": time_made(records),
        "units": summary.units,
        "bytes": summary.bytes,
        "seconds": round(summary.seconds, 3),
        "packages": _package_versions(),
    }
    publish_json(folder / _NAME, add_checksum(content))


def time_made(records: Iterable[UnitRecord]) -> str:
    """Return the sum of the times when units were made, which tells whether all are the same."""
    return str(sum(record.made for record in records))


def read_report(folder: Path) -> dict[str, Any]:
    """Return the content of a stage's `report.json`, empty if it is missing or damaged.

    Raises:
        NewerFormatError: a newer version wrote it.
    """
    path = folder / _NAME
    try:
        content: dict[str, Any] = verify_checksum(read_json(path) or {}, path, REPORT_FORMAT)
    except ValueError:
        return {}
    return content


@cache
def _package_versions() -> dict[str, str]:
    """Return the versions of Python, Clozeline and its installed dependencies."""
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in requires("clozeline") or []]
    versions = {"python": platform.python_version(), "clozeline": version("clozeline")}
    for name in sorted(set(names)):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # an extra that is not installed
            continue
    return versions


def write_run_report(recipe: Recipe, names: Sequence[str], plan: Plan) -> Path:
    """Write `report.html` of a run if a stage wrote its report later; return the page.

    `names` are its complete stages, in order, and `plan` is that of the run: its inputs need not be
    there any more. A `report.html` of somebody else stays.
    """
    path = choose_page_path(recipe.output_folder / "report.html")
    stages = [stage_of(recipe, name, plan) for name in names]
    newest = max((each.folder / _NAME).stat().st_mtime_ns for each in stages)
    if not path.exists() or path.stat().st_mtime_ns <= newest:
        publish_text(
            path, run_page(stages, {each.name: read_report(each.folder) for each in stages})
        )
    return path
