"""What a stage adds to the sets of later stages."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from clozeline.arrays import Int64
from clozeline.pipeline.execution.unit_inputs import SomeShards, UnitInputs
from clozeline.pipeline.rows import RowBatch
from clozeline.recorded_file import RecordedFile


@dataclass(frozen=True)
class ParentFile:
    """A file of a stage that the manifest of a set lists among its parents."""

    stage: str
    work: str
    """pass of the unit that writes it"""
    unit: str
    name: str
    role: str

    def open(self, inputs: UnitInputs) -> RecordedFile:
        """Return the file."""
        return inputs.file(self.stage, self.work, self.unit, self.name)

    def describe(self, inputs: UnitInputs) -> dict[str, str]:
        """Return the entry of the manifest."""
        return {"name": self.stage, "digest": self.open(inputs).xxh3_128, "role": self.role}


class DocumentCopies(ABC):
    """Decides how many copies of each document training reads, a field of units of `group`.

    It is a frozen dataclass that can be pickled. The numbers of several stages are multiplied.
    """

    VERSION: ClassVar[int] = 1
    """raised if equal fields and inputs give other numbers"""

    @abstractmethod
    def count(self, documents: RowBatch, tokens: SomeShards, inputs: UnitInputs) -> Int64:
        """Return the number of copies of each token document, 0 to 255, shape [documents].

        `tokens` are the shards of the documents.
        """
