"""Other finished outputs, whose documents dedup compares with those of this run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clozeline.errors import ConfigurationError
from clozeline.files import read_json
from clozeline.pipeline.execution.plan import read_plan
from clozeline.pipeline.execution.rewritten_documents import DocumentParts
from clozeline.pipeline.execution.stages import document_stages
from clozeline.pipeline.execution.unit_record import (
    RECORDS,
    UnitRecord,
    options_path,
    records,
)
from clozeline.seeding import hash64


@dataclass(frozen=True, slots=True)
class OtherOutput:
    """The final documents of another finished output, whose copies dedup removes from this run."""

    documents: DocumentParts

    @staticmethod
    def open(path: Path) -> "OtherOutput":
        """Return the final documents of an output.

        Raises:
            ConfigurationError: there are none, or their stage is incomplete.
        """
        written = (path / name for name in reversed(document_stages()))
        folder = next((folder for folder in written if (folder / RECORDS).is_dir()), None)
        if folder is None:
            raise ConfigurationError(
                f"dedup.against: {path}: expected the output of a run with documents, found none: "
                "correct the path"
            )

        try:
            plan = read_plan(path / "clean" / "plan.json")
            units = 1 + max((int(each["unit"]) for each in plan["units"]), default=-1)
        except (OSError, ValueError, KeyError, TypeError):
            units = 0

        finished = [record.unit for record in records(folder, "main")]
        if len(finished) != units:
            raise ConfigurationError(
                f"dedup.against: {folder}: expected {units:,} finished units, got "
                f"{len(finished):,}: finish that run first"
            )

        return OtherOutput(DocumentParts(folder, tuple(finished)))

    @property
    def output(self) -> Path:
        """Folder of the run."""
        return self.documents.folder.parent

    @property
    def dedup(self) -> Path:
        """Folder of its dedup, which may have kept its hashes and signatures."""
        return self.output / "dedup"

    def part_names(self) -> tuple[str, ...]:
        """Return names of the parts that no other output has."""
        own = f"{hash64('against', str(self.output.resolve())):016x}"
        return tuple(f"against-{own}-{name}" for name in self.documents.names)

    def has_made(self, part: int, pass_name: str, options: Mapping[str, Any]) -> bool:
        """Return whether its dedup made a part in a pass with these options, and kept the files.

        A unit made after the final documents may have read other texts.
        """
        name = self.documents.names[part]
        made = UnitRecord.read(UnitRecord.path(self.dedup, pass_name, name))
        final = UnitRecord.read(UnitRecord.path(self.documents.folder, "main", name))
        if made is None or final is None or made.status != "ok" or made.made > final.made:
            return False
        if made.lacks_intermediates(self.dedup):
            return False
        stored = read_json(options_path(self.dedup, made.options)) or {}
        return all(stored.get(option) == value for option, value in options.items())
