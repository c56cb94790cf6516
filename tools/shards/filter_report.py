"""Show what the filters of a run dropped: `clozeline filter-report OUT [html=FILE]`.

For each reason: the documents rejected and the key that decided, then those nearest to its
threshold on either side, so that you can judge where it should be. Values of rejected documents are
those that `clean` recorded; kept documents are measured again, by the recipe stored in OUT. Then
the malformed records, with their files and offsets.
"""

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, cast

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, plural, reading_run
from clozeline.pipeline.clean.filters import ThresholdFilter
from clozeline.pipeline.clean.ruling_keys import STEP_KEYS, filters_by_source, find_ruling_keys
from clozeline.pipeline.execution.rewritten_documents import find_documents
from clozeline.pipeline.execution.unit_record import RECORDS, UnitRecord, total_counts
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import (
    Rejection,
    read_documents,
    read_malformed,
    read_rejects,
    rejects_name,
)
from clozeline.pipeline.recipe import Recipe, load_recipe
from clozeline.pipeline.registries import LanguageComponent
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.recorded_file import RecordedFile, find_file
from clozeline.report.terminal_view import show_view
from clozeline.report.views import Section, Table
from clozeline.tools.command import OutputPath, Positive, UserPath, run_as_script, run_tool

_COMPARISON: Final = re.compile(
    r"(-?\d[\d.e+-]*)(?: [a-z ]+)? ([<>]) (-?\d[\d.e+-]*)(?: by [\w. ]+)?$"
)
_SHOWN_CHARACTERS: Final = 100
"""Length to which a text is shortened."""


@config_class
class FilterReportOptions:
    """A run of the pipeline, and how much of it is shown."""

    out: Annotated[UserPath, Positional(0)]
    """output folder of a pipeline run"""
    most: Positive = 3
    """documents on each side of a threshold"""
    documents: Positive = 2000
    """kept documents to measure, evenly from all parts"""
    html: OutputPath | None = None
    """write a page as well"""


class Neighbor(NamedTuple):
    """A document near a threshold; the nearest sorts last."""

    distance: float  # negative, as a share of the threshold
    uid: bytes
    shown: str
    origin: str
    text: str


@dataclass
class Reason:
    """Documents on either side of one threshold."""

    decided_by: str
    """step, and the key whose value it compared with"""
    rejected: int = 0
    below: list[Neighbor] = field(default_factory=list)  # rejected ones
    above: list[Neighbor] = field(default_factory=list)  # kept ones


def _keep_nearest(
    heap: list[Neighbor], most: int, value: float, threshold: float, *details: Any
) -> None:
    """Add a document, given its uid, value, origin and text.

    Drop the farthest beyond `most`.
    """
    heapq.heappush(heap, Neighbor(-abs(value - threshold) / (abs(threshold) or 1), *details))
    if len(heap) > most:
        heapq.heappop(heap)


def collect_reasons(
    out: Path, recipe: Recipe, most: int, documents: int
) -> tuple[dict[str, Reason], int]:
    """Return the reasons why documents were rejected.

    Also return the number of kept documents that were measured.
    """
    folder = out / "clean"
    config = recipe.config_of("clean")
    filters = filters_by_source(config)
    reasons = {reason: Reason(key) for reason, key in find_ruling_keys(config).items()}
    parts = _find_parts(folder)
    for part in parts:
        for row in read_rejects(_rejects_of(folder, part)):
            reason = reasons.setdefault(row.reason, Reason("clean"))
            reason.rejected += 1
            if (match := _COMPARISON.search(row.detail)) is not None:
                details = (
                    row.uid,
                    row.detail,
                    row.url or f"{row.source} at {row.offset:,}",
                    row.sample_text or "",
                )
                _keep_nearest(reason.below, most, float(match[1]), float(match[3]), *details)

    measured = {
        source: [
            cast(ThresholdFilter, chosen.build())
            for chosen in listed
            if issubclass(chosen.type, ThresholdFilter)
        ]
        for source, listed in filters.items()
    }

    languages = {
        name: source.language
        for name, source in config.sources.items()
        if source.language != "same"
    }

    count = 0

    for part in parts:
        some = islice(read_documents(find_documents(folder, part)), -(-documents // len(parts)))
        for document in some:
            count += 1
            origin = document.url or f"{document.source} at {document.offset:,}"
            steps = measured.get(document.source_group, measured[None])
            language = languages.get(document.source_group, config.language)
            for name, value, threshold, shown in _measure(document, steps, language):
                _keep_nearest(
                    reasons[name].above,
                    most,
                    value,
                    threshold,
                    document.uid,
                    shown,
                    origin,
                    document.text,
                )

    return reasons, count


def _measure(
    document: Document, steps: Sequence[ThresholdFilter], language: LanguageComponent | None
) -> Iterator[tuple[str, float, float, str]]:
    """Yield what decides about a document: reason, value and threshold.

    Value and threshold are also told in words.
    """
    if language is not None and document.language in language.options.keep:
        score = document.language_score
        least, key = language.options.minimum_score(document.language, document.n_chars)
        if score >= least:
            yield (
                "language_score",
                score,
                least,
                f"{document.language} {score:.3f} >= {least:.3f} by {key}",
            )

    statistics = TextStatistics(document.text)

    for step in steps:
        for name, value, minimum, maximum, shown in step.measure(document, statistics):
            sign, threshold = ("<=", maximum) if math.isfinite(maximum) else (">=", minimum)
            if minimum <= value <= maximum:
                yield name, value, threshold, f"{shown.format(value)} {sign} {threshold}"


def collect_malformed(out: Path, most: int) -> tuple[Mapping[str, int], dict[str, list[Rejection]]]:
    """Return the malformed records of `clean` by reason.

    Each reason has its number, and the first `most` records.
    """
    folder = out / "clean"
    first: dict[str, list[Rejection]] = {}
    for record in (
        record
        for part in _find_parts(folder)
        for record in read_malformed(_rejects_of(folder, part))
    ):
        listed = first.setdefault(record.reason, [])
        if len(listed) < most:
            listed.append(record)
    return total_counts(folder, "main").get("malformed", {}), first


def _find_parts(folder: Path) -> list[str]:
    """Return the units of `clean`, except failed ones.

    To find a file of a unit without a readable record is an error, see `find_file`.
    """
    names = ("rejects/*.arrow", "documents/*.arrow", "records/main/*.json")
    parts = sorted({path.stem for name in names for path in folder.glob(name)})
    if not parts or not (folder / RECORDS).is_dir():
        raise ConfigurationError(
            f"{folder.parent}: expected the output folder of a pipeline run with the stage clean, "
            f"got no {folder / RECORDS}"
        )

    records = {part: UnitRecord.read(UnitRecord.path(folder, "main", part)) for part in parts}
    return [part for part, record in records.items() if record is None or record.status == "ok"]


def _rejects_of(folder: Path, part: str) -> RecordedFile:
    return find_file(folder, f"main/{part}", rejects_name(part))


def report_view(out: Path, reasons: Mapping[str, Reason], measured: int) -> Section:
    """Return the tables of a report."""
    total = Counter({reason: outcome.rejected for reason, outcome in reasons.items()})
    ranked = sorted(reasons.items(), key=lambda item: -item[1].rejected)
    rows = tuple(
        (name, f"{outcome.rejected:,}", outcome.decided_by)
        for name, outcome in ranked
        if outcome.rejected or name not in STEP_KEYS
    )

    sheets = [Table("Rejected documents", ("reason", "documents", "decided by"), rows)]

    for name, outcome in reasons.items():
        # the nearest last, next to the kept ones
        sides = [("rejected", neighbor) for neighbor in sorted(outcome.below)]
        sides += [("kept", neighbor) for neighbor in sorted(outcome.above, reverse=True)]
        if outcome.rejected and sides:
            lines = tuple(
                (side, each.shown, each.origin, _start(each.text)) for side, each in sides
            )
            sheets.append(
                Table(f"{outcome.decided_by}: {name}", ("", "value", "document", "text"), lines)
            )

    summary = (
        f"{plural(total.total(), 'document')} rejected, {plural(measured, 'kept document')} "
        "measured"
    )
    return Section(f"{out}: {summary}", tuple(sheets))


def describe_malformed(
    counts: Mapping[str, int], first: Mapping[str, Sequence[Rejection]]
) -> Iterator[Table]:
    """Yield a table of the malformed records of each reason.

    Each record has its file and its offset (or row).
    """
    for reason, records in sorted(first.items()):
        title = (
            f"malformed: {reason}, {len(records):,} of "
            f"{plural(counts.get(reason, len(records)), 'record')}"
        )
        rows = tuple(
            (f"{each.source} at {each.offset:,}", f"{each.length:,}", each.detail)
            for each in records
        )
        yield Table(title, ("record", "bytes", "what is wrong"), rows)


def _start(text: str) -> str:
    joined = " ".join(text[: 2 * _SHOWN_CHARACTERS].split())
    return joined if len(joined) <= _SHOWN_CHARACTERS else f"{joined[:_SHOWN_CHARACTERS]}…"


def _report(options: FilterReportOptions) -> None:
    path = options.out / "clean" / "config.yaml"
    if not path.is_file():
        raise ConfigurationError(
            f"{options.out}: expected the output folder of a pipeline run, got no {path}"
        )

    with reading_run(path):
        recipe = load_recipe(path)
    view = report_view(
        options.out, *collect_reasons(options.out, recipe, options.most, options.documents)
    )
    malformed = describe_malformed(*collect_malformed(options.out, options.most))
    show_view(replace(view, parts=(*view.parts, *malformed)), options.html)


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, FilterReportOptions, _report, prints=True)


if __name__ == "__main__":
    run_as_script(main)
