"""Remove from the documents of a part what the types of duplicates have found."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from clozeline.pipeline.dedup.parts import DROP, DedupCounts, read_rows, uid_bytes
from clozeline.pipeline.execution.rewritten_documents import open_documents, rewrite_part
from clozeline.pipeline.execution.shuffle import Pieces
from clozeline.pipeline.execution.stages import Pass, Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Output, add_counts
from clozeline.pipeline.ingest.documents.document import FLAG_SPANS_REMOVED, Document
from clozeline.pipeline.ingest.documents.files import Rejection, read_documents

Edit: TypeAlias = Callable[[int, Document, str], tuple[str, int]]
"""Function of the row of a document in its part, the document, and the text that earlier types
leave: the remaining text, and the number of removed pieces."""
EditPasses: TypeAlias = "Generator[Pass[DedupCounts], None, TextEdits]"
"""Passes that find what to remove within texts, and then what removes it."""


class TextEdits(ABC):
    """What a key of `dedup` removes within texts, a frozen dataclass and a field of units."""

    VERSION: ClassVar[int] = 1
    """raised if equal fields and inputs give other texts"""
    name: str
    """name of the key"""

    @abstractmethod
    def open(self, inputs: UnitInputs, part: str) -> Edit:
        """Return what edits the texts of a part."""


@dataclass(frozen=True)
class RemovalTypes:
    """The types of duplicates to remove: `exact`, `near`, then those within texts."""

    exact: Pieces
    near: Pieces
    edits: tuple[TextEdits, ...]
    seed: int


@dataclass
class PartRemoval:
    """Decides about the documents of a part, and counts what it removes within texts."""

    removals: RemovalTypes
    inputs: UnitInputs
    part: str
    is_compared: bool

    def __post_init__(self) -> None:
        self.counts: DedupCounts = {"edited": 0, "edits": {}}
        self._exact = self._read_drops(self.removals.exact)
        self._near = self._read_drops(self.removals.near)
        self._edits = {each.name: each.open(self.inputs, self.part) for each in self.removals.edits}

    def documents(self) -> Iterator[tuple[int, Document]]:
        """Yield each document that stays, as it stays, and its row in the part."""
        for row, document in enumerate(read_documents(open_documents(self.inputs, self.part))):
            decided = self.decide(row, document)
            if isinstance(decided, Document):
                yield row, decided

    def decide(self, row: int, document: Document) -> Document | Rejection | None:
        """Return a document as it stays, or its rejection, by its row in the part.

        None for a document that is only compared.
        """
        if self.is_compared:
            return None
        if (kept := self._exact.get(document.uid)) is not None:
            # the copy that exact dedup kept may itself have been dropped for a near-duplicate
            return self._reject(document, "exact_duplicate", self._near.get(kept, kept).hex())
        if (kept := self._near.get(document.uid)) is not None:
            return self._reject(document, "near_duplicate", kept.hex())
        return self._edit(row, document)

    def _edit(self, row: int, document: Document) -> Document | Rejection:
        """Return the document after all edits, or its rejection if no text remains."""
        text = document.text
        removed = dict[str, int]()

        for name, edit in self._edits.items():
            remaining, pieces = edit(row, document, text)
            if not pieces:
                continue
            if not remaining:
                return self._reject(document, f"repeated_{name}", f"{pieces:,} repeated {name}")
            removed[name] = len(text) - len(remaining)
            text = remaining

        if not removed:
            return document
        add_counts(self.counts, {"edits": removed, "edited": 1})
        return document.replace_text(text, flags=document.flags | FLAG_SPANS_REMOVED)

    def _reject(self, document: Document, reason: str, detail: str) -> Rejection:
        return Rejection.from_document(
            document, stage="dedup", reason=reason, detail=detail, seed=self.removals.seed
        )

    def _read_drops(self, drops: Pieces) -> dict[bytes, bytes]:
        """Return the kept uid of each dropped uid; near drops may repeat a uid.

        Near drops also include kept documents of which the part had exact copies.
        """
        rows = read_rows(self.inputs, drops, self.part, DROP)
        return dict(zip(uid_bytes(rows["uid"]), uid_bytes(rows["kept"]), strict=True))


@dataclass(frozen=True)
class RemoveDuplicates(Unit[DedupCounts]):
    """Write the remaining documents of a part, and rejections that name the kept document."""

    VERSION = 2
    part: str
    is_compared: bool
    removals: RemovalTypes

    def run(self, inputs: UnitInputs, output: Output) -> DedupCounts:
        removal = PartRemoval(self.removals, inputs, self.part, self.is_compared)
        documents = open_documents(inputs, self.part)
        counts: DedupCounts = {}
        add_counts(counts, rewrite_part(output, self.part, documents, removal.decide))
        return add_counts(counts, removal.counts)
