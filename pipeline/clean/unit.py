"""The one pass of `clean`: from an input range to its documents and rejections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pipeline.clean.steps import Steps, host_of
from pipeline.clean.unit_counts import CleanCounts, UnitCounts
from pipeline.documents.document import Document, document_uid
from pipeline.documents.files import write_documents, write_rejects
from pipeline.errors import IntegrityError, StorageError
from pipeline.execution.plan import PlannedUnit
from pipeline.execution.stage import Pass
from pipeline.execution.unit_record import Output
from pipeline.extractors import BATCH, shared_extraction
from pipeline.formats.limits import Limits
from pipeline.readers import Counted, Item, RawRecord, Reader, options_of
from pipeline.recipe import InputEntry
from pipeline.registry import Chosen, choose

__all__ = ["CleanUnits", "SourceSteps"]

_BATCH_CHARACTERS: Final = 1 << 24
_EMPTY: Final = "empty_file"


@dataclass(frozen=True)
class SourceSteps:
    """Steps for the documents of one source."""

    extractor: Chosen
    language: Chosen | None
    filters: Sequence[Chosen]
    pair_filters: Sequence[Chosen] = ()


@dataclass
class CleanUnits(Pass[CleanCounts]):
    """Documents and rejections of each unit of the plan."""

    planned: Sequence[PlannedUnit]
    sources: dict[str, SourceSteps]
    corpus: str
    seed: int
    limits: Limits
    keep_text: float
    fail_truncated: bool
    name: str = "main"
    units: int = field(init=False)

    def __post_init__(self) -> None:
        self.units = len(self.planned)

    def run(self, unit: int, output: Output) -> CleanCounts:
        """Clean one unit.

        Raises:
            StorageError: the input is missing, changed while it was read, or is truncated under `truncated: fail`.
            IntegrityError: the rejections written are not those counted.
        """
        planned = self.planned[unit]
        path = _present(planned)
        before = path.stat().st_size
        tally = UnitCounts(self.seed, self.keep_text)
        with output.file(f"documents/{unit:06d}.arrow") as temporary:
            write_documents(temporary, self._documents(planned, path, tally))
            if path.stat().st_size != before:
                raise StorageError(f"{path}: changed while it was read ({before} bytes before): run again later")
            if self.fail_truncated and tally.counts["malformed"].get("truncated"):
                raise StorageError(
                    f"{path}: truncated; repair it, or keep its readable part by on_error.truncated=accept"
                )
        with output.file(f"rejects/{unit:06d}.arrow") as temporary:
            written = write_rejects(temporary, tally.rejections)
        if written != sum(tally.counts["rejected"].values()):
            raise IntegrityError(f"clean: unit {unit} wrote {written} rejections, but counted {tally.counts}")
        return tally.counts

    def _documents(self, planned: PlannedUnit, path: Path, tally: UnitCounts) -> Iterator[Document]:
        entry = planned.entry or InputEntry(path=str(path))
        source = self.sources[planned.source_group]
        steps = Steps(source.language, source.filters, source.pair_filters, self.limits.text_chars, tally)
        reader = _reader(planned.reader, entry, self.limits)
        tally.open(reader.reasons, [*steps.reasons, *source.extractor.type.reasons])
        tally.add({"bytes_in": planned.end - planned.start})
        if path.stat().st_size == 0:
            tally.count(Counted("note", _EMPTY))
            return
        for record in self._extracted(reader.read(path, planned.start, planned.end), source, planned, tally):
            kept = steps.clean(record, entry.language, entry.target_language)
            if kept is not None:
                tally.keep(kept)
                yield kept

    def _extracted(
        self, items: Iterator[Item], source: SourceSteps, planned: PlannedUnit, tally: UnitCounts
    ) -> Iterator[Document]:
        """Yield documents with their text, in order; pages go to the extractor in batches."""
        for batch in _batches(items, tally):
            pages = [record.text for record in batch if record.markup]
            answers = iter(shared_extraction(source.extractor).extract(pages) if pages else ())
            for record in batch:
                document = self._document(record, planned)
                tally.enter(document.uid, planned.source, record.locator)
                if not record.markup:
                    yield document
                    continue
                answer = next(answers)
                if answer.reason is None:
                    yield document.having(text=answer.text)
                else:
                    tally.reject(document.having(text=""), "extraction", answer.reason)

    def _document(self, record: RawRecord, planned: PlannedUnit) -> Document:
        return Document(
            uid=document_uid(self.corpus, planned.source, record.kind, record.locator),
            text=record.text,
            target_text=record.target_text,
            source=planned.source,
            source_group=planned.source_group,
            offset=record.locator,
            length=record.length,
            url=record.url,
            host=host_of(record.url),
            date=record.date,
            flags=record.flags,
            extra=record.extra,
        )


def _present(planned: PlannedUnit) -> Path:
    if planned.path is None or not planned.path.is_file():
        raise StorageError(f"input {planned.source!r} ({planned.path}): no such file; give the inputs of the first run")
    return planned.path


def _reader(name: str, entry: InputEntry, limits: Limits) -> Reader:
    """Return the reader with those of the entry's options that it has."""
    options = options_of(name, entry.options)
    reader: Reader = choose("pipeline.readers", {"name": name, **options}).build(limits)
    return reader


def _batches(items: Iterator[Item], tally: UnitCounts) -> Iterator[list[RawRecord]]:
    """Yield records in batches that fill one message to the extractor; count the other items."""
    batch: list[RawRecord] = []
    characters = 0
    for item in items:
        if isinstance(item, Counted):
            tally.count(item)
            continue
        if "dropped" in item.extra:
            tally.add({"repairs": {"extra_dropped": 1}})
        batch.append(item)
        characters += len(item.text)
        if len(batch) == BATCH or characters > _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
