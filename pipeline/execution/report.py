"""Write and read the reports of a run: `report.json` per stage and per run, and `report.html`."""

import platform
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Final

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.errors import IntegrityError, StorageError
from clozeline.files import parse_json, publish_json, publish_text, read_json
from clozeline.pipeline.execution.arguments import OPTIONS
from clozeline.pipeline.execution.report_page import run_page
from clozeline.pipeline.execution.stages import StageSummary, stage_of
from clozeline.pipeline.execution.unit_record import UnitRecord, options_path
from clozeline.pipeline.recipe import Recipe

REPORT_FORMAT: Final = 1
"""Format number of every `report.json`; raised when a key changes its meaning."""
# Most different options of the units of a pass that a report lists.
_MOST_OPTIONS: Final = 16


def write_stage_report(folder: Path, summary: StageSummary, records: Sequence[UnitRecord]) -> None:
    """Write `report.json` of a stage, with the versions and options that decided its output."""
    passes: dict[str, list[UnitRecord]] = {}
    for record in records:
        passes.setdefault(record.pass_name, []).append(record)
    content = {
        "format": REPORT_FORMAT,
        "stage": summary.name,
        "counts": summary.counts,
        "made": time_made(records),
        "units": summary.units,
        "bytes": summary.bytes,
        "seconds": round(summary.seconds, 3),
        "deciders": {
            "passes": {name: _describe_pass(folder, each) for name, each in passes.items()},
            "packages": _package_versions(),
        },
    }
    publish_json(folder / "report.json", add_checksum(content))


def time_made(records: Iterable[UnitRecord]) -> str:
    """Return the sum of the times when units were made, which tells whether all are the same."""
    return str(sum(record.made for record in records))


def _describe_pass(folder: Path, records: Sequence[UnitRecord]) -> dict[str, Any]:
    """Return the arguments that all units of a pass share, and their different options."""
    first = records[0].arguments
    shared = {
        name: value
        for name, value in first.items()
        if all(record.arguments.get(name) == value for record in records)
    }
    digests = sorted({record.arguments.get(OPTIONS, "") for record in records} - {""})
    options = [read_json(options_path(folder, digest)) for digest in digests[:_MOST_OPTIONS]]
    return {**shared, OPTIONS: options}


def read_report(path: Path, remedy: str) -> dict[str, Any]:
    """Return the content of a `report.json`; messages end with `remedy`, which writes it again."""
    try:
        data = verify_checksum(parse_json(path.read_text(encoding="utf-8")), path, REPORT_FORMAT)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}; {remedy}") from error
    except (ValueError, AttributeError) as error:
        raise IntegrityError(f"{path}: damaged: {error}; {remedy}") from error
    return data


def earlier_report(path: Path) -> dict[str, Any]:
    """Return the content of a `report.json`, empty if it is missing or damaged.

    Raises:
        NewerFormatError: a newer version wrote it.
    """
    try:
        return read_report(path, "")
    except (IntegrityError, StorageError):
        return {}


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


def write_run_report(recipe: Recipe, names: Sequence[str]) -> Path:
    """Write `report.html` and `report.json` of a run if they changed; return the page.

    `names` are its complete stages, in order. A stage that was killed before it wrote its report is
    omitted.
    """
    path = recipe.output_folder / "report.html"
    summary = recipe.output_folder / "report.json"
    stages = [
        stage_of(recipe, name) for name in names if (recipe.folder(name) / "report.json").is_file()
    ]
    reports = {
        stage.name: read_report(
            stage.folder / "report.json", f"run `clozeline {stage.name}` again, which writes it"
        )
        for stage in stages
    }

    known = earlier_report(summary).get("stages", {})
    if not path.exists() or any(known.get(name) != report for name, report in reports.items()):
        publish_text(path, run_page(stages, reports))
        publish_json(summary, add_checksum({"format": REPORT_FORMAT, "stages": reports}))

    return path
