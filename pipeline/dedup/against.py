"""Documents of another finished output, whose copies dedup removes from its own documents."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.plan import read_plan
from clozeline.pipeline.execution.unit_record import outputs_digest, records

OTHER_MERIT: Final = 1 << 62
"""Merit of a document of the other output: above that of any own one, whatever the rule."""
_STAGES: Final = ("decontaminate", "dedup", "clean")
"""Stages that write documents, the last first."""


@dataclass(frozen=True, slots=True)
class OtherOutput:
    """The last documents of a finished output, in parts."""

    documents: Path  # of a stage, which holds `documents/<unit:06d>.arrow`
    units: int  # number of parts
    digest: str  # of all files of the stage


def open_output(path: Path) -> OtherOutput:
    """Return the last documents of an output.

    Raises:
        ConfigurationError: the output has no documents, or their stage is not complete.
    """
    folder = next((path / name for name in _STAGES if (path / name / "records").is_dir()), None)
    if folder is None:
        raise ConfigurationError(
            f"dedup.against: {path}: expected the output of a run with documents, got none: correct the path"
        )
    units = _count_units(path / "clean" / "plan.json")
    finished = records(folder, "main")
    if [record.unit for record in finished] != list(range(units)):
        raise ConfigurationError(
            f"dedup.against: {folder}: expected {units:,} finished units, got {len(finished):,}: finish that run first"
        )
    return OtherOutput(folder, units, outputs_digest(finished))


def _count_units(plan: Path) -> int:
    try:
        return 1 + max((int(each["unit"]) for each in read_plan(plan)["units"]), default=-1)
    except (OSError, ValueError, KeyError, TypeError):
        return 0
