"""The pass of `clean`: input ranges become documents and rejections."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.clean.config import LineRules
from clozeline.pipeline.clean.exclusion import Exclusion
from clozeline.pipeline.clean.extractors._extraction import (
    EXTRACTION_KEYS,
    shared_extractor_process,
)
from clozeline.pipeline.clean.filters import Filter, list_data_files
from clozeline.pipeline.clean.language_step import LanguageStep
from clozeline.pipeline.clean.languages import LANGUAGE_KEYS, UNDECIDED
from clozeline.pipeline.clean.unit_counts import CleanCounts, UnitCounts
from clozeline.pipeline.execution.inputs import observe_file, range_hash, range_name
from clozeline.pipeline.execution.plan import PlannedRange
from clozeline.pipeline.execution.remote_file import RemoteFile
from clozeline.pipeline.execution.stages import Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import TEMPORARY, Output
from clozeline.pipeline.ingest.documents.document import (
    FLAG_TRUNCATED_SOURCE,
    Document,
    document_uid,
    escape_name,
)
from clozeline.pipeline.ingest.documents.files import (
    documents_name,
    rejects_name,
    write_documents,
    write_rejects,
)
from clozeline.pipeline.ingest.formats.archives import (
    ARCHIVE_REASONS,
    ARCHIVES,
    MemberFile,
    UnreadMember,
)
from clozeline.pipeline.ingest.formats.decompression import InputFile, decompress_file
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.reader_options import select_options
from clozeline.pipeline.ingest.readers import (
    NO_RECORDS,
    RawRecord,
    Reader,
    SkippedRecord,
    detect_members,
)
from clozeline.pipeline.recipe import InputEntry, OnError
from clozeline.pipeline.registries import (
    READERS,
    ExtractorComponent,
    FilterComponent,
    LanguageComponent,
)
from clozeline.pipeline.text.hosts import extract_host
from clozeline.pipeline.text.normal_form import NORMALIZE_VERSION, NormalForm, normalize_as
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.pipeline.text.wrapped_lines import unwrap


@dataclass(frozen=True)
class SourceSteps:
    """Algorithms chosen for one source."""

    extractor: ExtractorComponent
    language: LanguageComponent | None
    filters: Sequence[FilterComponent]
    pair_filters: Sequence[FilterComponent] = ()
    normalize: NormalForm = "prose"
    unwrap: bool = False
    line_rules: LineRules = "paragraphs"

    def list_files(self) -> list[Path]:
        """Return the files that filters and the language identifier read."""
        components = (*self.filters, *self.pair_filters, self.language)
        return [path for each in components if each for path in list_data_files(each.options)]


_Filters: TypeAlias = list[tuple[str, Filter]]
"""Filters by their labels."""
_CLEAN_VERSION: Final = 5


class CleaningSteps:
    """The cleaning steps of one source, built once per unit.

    Of a pair of aligned texts, both sides are normalized. The languages of the sides come from the
    configuration, and only `pair_filters` judge the pair.
    """

    def __init__(self, source: SourceSteps, text_chars: int, tally: UnitCounts) -> None:
        self._extraction = shared_extractor_process(source.extractor)
        self._language = LanguageStep(source.language, tally)
        built = _build_filters(source.filters)
        self._filters = _by_time(built)
        self._pair_filters = _by_time(_build_filters(source.pair_filters))
        self._form = source.normalize
        self._unwrap = source.unwrap
        self._as_written = source.line_rules == "lines"
        self._text_chars = text_chars
        self._tally = tally

        self.reasons = [
            "too_long",
            "empty",
            *EXTRACTION_KEYS,
            *(LANGUAGE_KEYS if source.language else []),
        ]

        self.reasons += [reason for _, step in built for reason in step.reasons]

    def clean(
        self,
        document: Document,
        stated_language: str | None,
        target_language: str | None = None,
        *,
        is_markup: bool = False,
    ) -> Document | None:
        """Return the finished document, or None if it was rejected.

        With `is_markup`, the text is extracted from the page, after the filters that need no text.
        The language is not identified if the configuration of the input states it.
        """
        early, late = self._filters if document.target_text is None else self._pair_filters

        # filters that need no text come first, so that rejected pages are never parsed
        if early:
            judged = self._apply_filters(early, document.replace(text="", target_text=None))
            if judged is None:
                return None
            document = document.replace(extra=judged.extra, flags=judged.flags)

        if is_markup:
            page = self._extraction.extract(document.text)
            document = document.replace(text=page.text)
            if page.reason is not None:
                self._tally.reject(document, page.reason)
                return None
            if page.lenient:
                self._tally.note("extract_fallback")

        if (text := self._normalize(document, document.text)) is None:
            return None
        if text != document.text:
            document = document.replace(text=text)

        if document.target_text is not None:
            target = self._normalize(document, document.target_text, "other side: ")
            if target is None:
                return None
            document = document.replace(
                target_text=target,
                target_language=target_language or document.target_language or "und",
            )
            stated_language = stated_language or document.language

        self._tally.add({"characters_in": document.characters})
        identified = self._language.identify(document, stated_language)
        if identified is None:
            return None
        kept = self._apply_filters(late, identified)
        return None if kept is None else kept.replace_text(kept.text)

    def _normalize(self, document: Document, raw: str, side: str = "") -> str | None:
        if len(raw) > self._text_chars:
            self._tally.reject(
                document, "too_long", f"{side}{len(raw)} characters > {self._text_chars}"
            )
            return None

        text, changes = normalize_as(self._form, raw)

        if self._unwrap:
            joined = unwrap(text)
            if line_ends := text.count("\n") - joined.count("\n"):
                changes["wrapped_line_ends"] = line_ends
            text = joined

        if changes:
            self._tally.add({"normalized": changes})

        if not text or text.isspace():
            reason = "empty" if document.target_text is None else "empty_side"
            self._tally.reject(document if side else document.replace(text=text), reason)
            return None

        return text

    def _apply_filters(
        self, filters: Iterable[tuple[str, Filter]], document: Document
    ) -> Document | None:
        """Return the document after some filters, or None if one of them rejects it."""
        statistics = TextStatistics(document.text, as_written=self._as_written)

        for name, step in filters:
            verdict = step.judge(document, statistics)
            if verdict.note:
                self._tally.note(verdict.note)
            if verdict.reason:
                self._tally.reject(document, verdict.reason, verdict.detail, name)
                return None

            if verdict.columns:
                document = document.replace(extra={**document.extra, **verdict.columns})
            if verdict.text is not None:
                removed = {f"{name}.{rule}": count for rule, count in verdict.removed.items()}
                cut = len(document.text) - len(verdict.text)
                self._tally.add({"edits": removed, "cut": {name: cut}})
                document = document.replace(text=verdict.text, flags=document.flags | verdict.flags)
                statistics = TextStatistics(verdict.text, as_written=self._as_written)

        return document


@dataclass(frozen=True)
class CleanUnit(Unit[CleanCounts]):
    """Write the documents and rejections of a range of a file, or of several small files."""

    VERSION = _CLEAN_VERSION + NORMALIZE_VERSION
    name: str
    content: str
    """digest of the ranges: names, bounds, options and versions of readers"""
    sources: Mapping[str, SourceSteps]
    corpus: str
    seed: int
    limits: InputLimits
    keep_text: float
    on_error: OnError
    most_documents: int | None = None
    """number of documents in a preview; None: all"""
    exclusion: Exclusion | None = None
    ranges: Sequence[PlannedRange] = field(default=(), compare=False)
    identities: Sequence[str] = field(default=(), compare=False)
    """identity of the content of the input of each range"""

    def run(self, inputs: UnitInputs, output: Output) -> CleanCounts:
        name = self.name
        tally = UnitCounts(self.seed, self.keep_text, self.most_documents)
        for each, identity in zip(self.ranges, self.identities, strict=True):
            inputs.note(identity, "input", each.source)

        with output.file(documents_name(name)) as temporary:
            for path in (path for each in self.sources.values() for path in each.list_files()):
                inputs.user_file(path)
            steps = {
                label: CleaningSteps(source, self.limits.text_chars, tally)
                for label, source in self.sources.items()
            }
            scratch = output.folder / TEMPORARY
            scratch.mkdir(parents=True, exist_ok=True)
            ranges = (
                self._clean_range(each, tally, steps[each.source_group], scratch)
                for each in self.ranges
            )
            write_documents(temporary, chain.from_iterable(ranges))

        if self.on_error.malformed == "fail" and (losses := tally.explain_losses()):
            raise ConfigurationError(
                "\n".join(losses[:5])
                + "\nname what differs, here or next to the path of the input: input.encoding=NAME"
                ", input.text_key=KEY, input.reader=NAME; raise a limit that they exceed: "
                "limits.record_bytes=N, limits.line_bytes=N; on_error.malformed=accept drops the "
                "rows"
            )

        # inputs of a preview are not hashed, because it need not read all of their bytes,
        # and neither are remote files, which have versions
        for each in self.ranges if self.most_documents is None else ():
            if isinstance(file := _find_input(each), Path):
                inputs.hashes[range_name(each.source, each.start, each.end)] = range_hash(
                    file, each.start, each.end
                )

        with output.file(rejects_name(name)) as temporary:
            write_rejects(temporary, tally.rejections)
        return tally.counts

    def _clean_range(
        self, planned: PlannedRange, tally: UnitCounts, steps: CleaningSteps, scratch: Path
    ) -> Iterator[Document]:
        """Yield the finished documents of a range of a file, or of the members of an archive."""
        if tally.left == 0:
            return
        if self._is_excluded(planned, tally):
            tally.add({"bytes_in": planned.end - planned.start})
            return

        path = _find_input(planned)
        before = observe_file(path)
        if before != planned.state:
            raise StorageError(
                f"{path}: the file changed after the inputs were listed: run the same command "
                "again, which reads the changed file"
            )

        tally.add({"bytes_in": planned.end - planned.start})

        if planned.reader in ARCHIVES:
            yield from self._clean_archive(planned, path, tally, steps, scratch)
        else:
            yield from self._clean_file(planned, path, tally, steps)

        if observe_file(path) != before:
            raise StorageError(
                f"{path}: the file changed while it was read ({before.size} bytes before): run "
                "again later"
            )

    def _is_excluded(self, planned: PlannedRange, tally: UnitCounts) -> bool:
        """Return whether a line of `exclude` names this file; count it if so."""
        if self.exclusion is None or not (lines := self.exclusion.find_input(planned)):
            return False
        tally.start_file(planned.source, (), ())
        tally.note("excluded_file")
        tally.add({"excluded_by": {str(line): 1 for line in lines}})
        return True

    def _clean_archive(
        self,
        planned: PlannedRange,
        path: InputFile,
        tally: UnitCounts,
        steps: CleaningSteps,
        scratch: Path,
    ) -> Iterator[Document]:
        """Yield the finished documents of each member; count members that are not read."""
        reader_name = None if planned.entry is None else planned.entry.reader
        records = 0

        for number, (member, reader) in enumerate(
            detect_members(path, planned.reader, self.limits, scratch, reader_name)
        ):
            tally.start_file(planned.source, ARCHIVE_REASONS, steps.reasons)

            if isinstance(member, UnreadMember):
                detail = f"{member.name}: {member.reason}"
                tally.count(
                    SkippedRecord(
                        member.group,
                        member.reason,
                        number,
                        detail=detail,
                        lost_bytes=member.lost_bytes,
                    )
                )
                self._check_truncated(path, tally)
                continue

            each = replace(
                planned,
                source=f"{planned.source}!{escape_name(member.name)}",
                path=member,
                reader=reader,
                start=0,
                end=member.stat().st_size,
            )
            if not self._is_excluded(each, tally):
                yield from self._clean_file(each, member, tally, steps)
            records += 1
            if tally.left == 0:
                return

        if not records:
            tally.add({"without_records": {planned.source: planned.end - planned.start}})

    def _check_truncated(self, path: InputFile, tally: UnitCounts) -> None:
        if self.on_error.truncated == "fail" and tally.events.get("truncated"):
            raise StorageError(
                f"{path}: the file is truncated; repair it, or keep its readable part with "
                "on_error.truncated=accept"
            )

    def _clean_file(
        self, planned: PlannedRange, path: InputFile, tally: UnitCounts, steps: CleaningSteps
    ) -> Iterator[Document]:
        """Yield the finished documents of a range of a file, or of a member of an archive."""
        entry = planned.entry or InputEntry(path=str(path))
        options = {"name": planned.reader, **select_options(planned.reader, entry.options)}
        reader: Reader = READERS.resolve(options).build(self.limits)
        tally.start_file(planned.source, reader.reasons, steps.reasons)
        if path.stat().st_size == 0:
            tally.note("empty_file")
            return

        records = tally.counts["records_in"]
        record = None
        try:
            for item in reader.read(path, planned.start, planned.end):
                if isinstance(item, SkippedRecord):
                    tally.count(item)
                    continue

                record = item
                document = self._make_document(item, planned, tally)
                if document is not None:
                    kept = steps.clean(
                        document, entry.language, entry.target_language, is_markup=item.is_markup
                    )
                    if kept is not None:
                        tally.count_kept(kept)
                        yield kept

                if tally.left is not None:
                    tally.left -= 1
                    if not tally.left:
                        tally.note("limit")
                        return
                record = None
        except BaseException as error:
            where = "" if record is None else f"document at {record.locator} of "
            error.add_note(f"{where}{planned.source}")
            raise

        self._check_truncated(path, tally)

        if reader.guess:
            tally.note(f"looks like {reader.guess}")
        for key in reader.missing_keys():
            tally.note(f"{key} found in none of the first 1,000 rows")
        if (
            tally.counts["records_in"] > records
            or tally.events.get(NO_RECORDS.reason)
            or _is_empty(path, self.limits)
        ):
            return

        # a record starts in the range, but none was read
        if reader.find_first_record(path, planned.start) < reader.find_first_record(
            path, planned.end
        ):
            tally.add({"without_records": {planned.source: planned.end - planned.start}})

    def _make_document(
        self, record: RawRecord, planned: PlannedRange, tally: UnitCounts
    ) -> Document | None:
        """Return the document of a record, or None if the run excludes it."""
        document = Document(
            uid=document_uid(self.corpus, planned.source, record.locator_type, record.locator),
            text=record.text,
            target_text=record.target_text,
            source=planned.source,
            source_group=planned.source_group,
            offset=record.locator,
            length=record.length,
            url=record.url,
            host=extract_host(record.url),
            date=record.date,
            flags=record.flags,
            extra=dict(record.extra),
            language=record.language or UNDECIDED,
            language_score=float(record.language not in (None, UNDECIDED)),
        )
        if record.stored:
            document = document.replace(**record.stored)

        if record.flags & FLAG_TRUNCATED_SOURCE:
            tally.note("rest_cut_by_source")
        if "dropped" in record.extra:
            tally.add({"repairs": {"extra_dropped": 1}})
        if self.exclusion and (
            lines := self.exclusion.find_document(document.uid, document.url, document.host)
        ):
            tally.add({"records_in": 1, "excluded": {"excluded": 1}})
            tally.add({"excluded_by": {str(line): 1 for line in lines}})
            return None

        tally.add_document(document, planned.source, record.locator)
        return document


def _build_filters(components: Sequence[FilterComponent]) -> _Filters:
    built = [(component.name, component.build()) for component in components]
    return [(step.label or name, step) for name, step in built]


def _by_time(filters: _Filters) -> tuple[_Filters, _Filters]:
    """Return the filters before the extraction of a text, and those after it."""
    early = [(name, step) for name, step in filters if step.before_extraction]
    return early, [(name, step) for name, step in filters if not step.before_extraction]


def _is_empty(path: InputFile, limits: InputLimits) -> bool:
    """Return whether a compressed file is complete and empty."""
    return next(decompress_file(path, limits), b"") == b""


def _find_input(planned: PlannedRange) -> Path | RemoteFile:
    if planned.path is None or isinstance(planned.path, MemberFile) or not planned.path.is_file():
        raise StorageError(
            f"input {planned.source!r} ({planned.path}): no such file; give the inputs of the "
            "first run"
        )
    return planned.path
