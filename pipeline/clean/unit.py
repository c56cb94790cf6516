"""The pass of `clean`: turn input ranges into documents and rejections."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from clozeline.errors import StorageError
from clozeline.pipeline.clean.exclusion import Exclusion
from clozeline.pipeline.clean.extractors import BATCH, shared_extraction
from clozeline.pipeline.clean.steps import SourceSteps, Steps
from clozeline.pipeline.clean.unit_counts import CleanCounts, UnitCounts
from clozeline.pipeline.execution.inputs import observe_file, other_name, range_hash, range_name
from clozeline.pipeline.execution.plan import PlannedRange
from clozeline.pipeline.execution.remote_file import RemoteFile
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output, require_equal
from clozeline.pipeline.ingest.documents.document import Document, document_uid
from clozeline.pipeline.ingest.documents.files import write_documents, write_rejects
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.reader_options import options_of, other_files
from clozeline.pipeline.ingest.readers import Counted, Item, RawRecord, Reader
from clozeline.pipeline.recipe import InputEntry
from clozeline.pipeline.text.hosts import host_of
from clozeline.registry import choose

_BATCH_CHARACTERS: Final = 1 << 24
_EMPTY: Final = "empty_file"
_EXCLUDED: Final = "excluded"
_EXCLUDED_FILE: Final = "excluded_file"
_FALLBACK: Final = "extract_fallback"


@dataclass
class CleanUnits(Pass[CleanCounts]):
    """Per unit of the plan, one range of a file or several small files: write documents and rejections."""

    planned: Sequence[Sequence[PlannedRange]]
    sources: dict[str, SourceSteps]
    corpus: str
    seed: int
    limits: Limits
    keep_text: float
    fail_truncated: bool
    units: int
    limit: int | None = None  # documents of all units together
    exclusion: Exclusion | None = None
    name: str = "main"

    def run(self, unit: int, output: Output) -> CleanCounts:
        tally = UnitCounts(self.seed, self.keep_text)
        with output.file(f"documents/{unit:06d}.arrow") as temporary:
            steps: dict[str, Steps] = {}
            quota = _Quota(None if self.limit is None else self.limit // self.units + (unit < self.limit % self.units))
            ranges = (self._clean_range(planned, tally, steps, quota) for planned in self.planned[unit])
            documents = write_documents(temporary, chain.from_iterable(ranges))
        require_equal(f"clean: unit {unit}", "documents_out", tally.counts["documents_out"], "documents written",
                      documents)  # fmt: skip
        for planned in self.planned[unit] if self.limit is None else ():  # a preview need not read all bytes
            name = range_name(planned.source, planned.start, planned.end)
            output.inputs[name] = range_hash(_find_input(planned), planned.start, planned.end)
            for option, path in _companion_files(planned).items():
                size = path.stat().st_size
                output.inputs[range_name(other_name(planned.source, option), 0, size)] = range_hash(path, 0, size)
        output.edits = tally.edits
        with output.file(f"rejects/{unit:06d}.arrow") as temporary:
            rejections = write_rejects(temporary, tally.rejections)
        listed = sum(tally.counts["rejected"].values()) + sum(tally.counts["malformed_listed"].values())
        require_equal(f"clean: unit {unit}", "rejected + malformed_listed", listed, "rejections written", rejections)
        return tally.counts

    def _clean_range(
        self, planned: PlannedRange, tally: UnitCounts, steps_by_source: dict[str, Steps], quota: "_Quota"
    ) -> Iterator[Document]:
        if quota.is_used():
            return
        if self.exclusion is not None and (lines := self.exclusion.find_input(planned)):
            tally.open(planned.source, (), ())
            tally.count(Counted("note", _EXCLUDED_FILE))
            tally.add({"bytes_in": planned.end - planned.start, "excluded_by": {str(line): 1 for line in lines}})
            return
        path = _find_input(planned)
        files: tuple[Path | RemoteFile, ...] = (path, *_companion_files(planned).values())
        before = [observe_file(file) for file in files]
        if isinstance(path, RemoteFile) and before[0] != (path.size, path.version):
            raise StorageError(f"{path}: changed since the inputs were listed: run again")
        entry = planned.entry or InputEntry(path=str(path))
        source = self.sources[planned.source_group]
        steps = steps_by_source.get(planned.source_group)
        if steps is None:
            steps = Steps(source, self.limits.text_chars, tally)
            steps_by_source[planned.source_group] = steps
        options = {"name": planned.reader, **options_of(planned.reader, entry.options)}
        reader: Reader = choose("clozeline.pipeline.ingest.readers", options).build(self.limits)
        tally.open(planned.source, reader.reasons, steps.reasons)
        tally.add({"bytes_in": planned.end - planned.start})
        if path.stat().st_size == 0:
            tally.count(Counted("note", _EMPTY))
            return
        items = reader.read(path, planned.start, planned.end)
        for record in self._extract(quota.take(items), source, planned, steps, tally):
            kept = steps.clean(record, entry.language, entry.target_language)
            if kept is not None:
                tally.keep(kept)
                yield kept
        for file, facts in zip(files, before, strict=True):
            if observe_file(file) != facts:
                raise StorageError(f"{file}: changed while it was read ({facts[0]} bytes before): run again later")
        if quota.is_used():
            tally.count(Counted("note", "limit"))
            return
        if self.fail_truncated and tally.events.get("truncated"):
            raise StorageError(f"{path}: truncated; repair it, or keep its readable part by on_error.truncated=accept")
        if not tally.records_of_range and reader.first(path, planned.start) < reader.first(path, planned.end):
            tally.add({"without_records": {planned.source: planned.end - planned.start}})

    def _extract(
        self, items: Iterator[Item], source: SourceSteps, planned: PlannedRange, steps: Steps, tally: UnitCounts
    ) -> Iterator[Document]:
        """Yield documents with their text, in order; pages whose URL passes go to the extractor in batches."""
        for batch in _collect_batches(items, tally):
            screened: list[tuple[Document, bool]] = []
            for record in batch:
                document = Document(
                    uid=document_uid(self.corpus, planned.source, record.kind, record.locator),
                    text=record.text, target_text=record.target_text,
                    source=planned.source, source_group=planned.source_group,
                    offset=record.locator, length=record.length,
                    url=record.url, host=host_of(record.url), date=record.date,
                    flags=record.flags, extra=dict(record.extra),
                )  # fmt: skip
                if self.exclusion is not None:
                    found = self.exclusion.find_document(document.uid, document.url, document.host)
                    if found:
                        tally.count(Counted("ignored", _EXCLUDED))
                        tally.add({"excluded_by": {str(line): 1 for line in found}})
                        continue
                tally.add_document(document.uid, planned.source, record.locator)
                if steps.screen(document):
                    screened.append((document, record.markup))
            pages = [document.text for document, markup in screened if markup]
            answers = iter(shared_extraction(source.extractor).extract(pages) if pages else ())
            for document, markup in screened:
                if not markup:
                    yield document
                    continue
                answer = next(answers)
                if answer.reason is None:
                    if answer.lenient:
                        tally.count(Counted("note", _FALLBACK))
                    yield document.replace(text=answer.text)
                else:
                    tally.reject(document.replace(text=""), "extraction", answer.reason)


class _Quota:
    """The number of documents that a unit may still read; None: all."""

    def __init__(self, documents: int | None) -> None:
        self._left = documents

    def is_used(self) -> bool:
        return self._left == 0

    def take(self, items: Iterator[Item]) -> Iterator[Item]:
        """Yield items until the last allowed document."""
        for item in items:
            yield item
            if self._left is not None and isinstance(item, RawRecord):
                self._left -= 1
                if not self._left:
                    return


def _find_input(planned: PlannedRange) -> Path | RemoteFile:
    if planned.path is None or not planned.path.is_file():
        raise StorageError(f"input {planned.source!r} ({planned.path}): no such file; give the inputs of the first run")
    if isinstance(planned.path, RemoteFile):
        return planned.path.restricted(planned.start, planned.end)
    return planned.path


def _companion_files(planned: PlannedRange) -> dict[str, Path]:
    return {} if planned.entry is None else other_files(planned.reader, planned.entry.options)


def _collect_batches(items: Iterator[Item], tally: UnitCounts) -> Iterator[list[RawRecord]]:
    """Yield records in batches that fill one message to the extractor; count all other items."""
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
