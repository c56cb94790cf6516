"""Show what the filters of a run dropped: `clozeline filter-report mine/data [html=FILE]`.

For each reason, of rejected documents and of malformed records: how many, the key that decided, and
counts of what was found, such as languages. Then, of a threshold, the documents nearest to it on
either side, so that you can judge where it should be; of all else the first ones, with file, offset
and line. Values of rejected documents are those that `clean` recorded; kept documents are measured
again, by the recipe stored in OUT.
"""

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, cast

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, plural, reading_run
from clozeline.pipeline.clean.filters import ThresholdFilter
from clozeline.pipeline.clean.ruling_keys import filters_by_source, find_ruling_keys
from clozeline.pipeline.execution.rewritten_documents import find_documents
from clozeline.pipeline.execution.unit_record import RECORDS, UnitRecord, total_counts
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import (
    READ_STAGE,
    read_documents,
    read_rejections,
    rejects_name,
)
from clozeline.pipeline.recipe import Recipe, load_recipe
from clozeline.pipeline.registries import LanguageComponent
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.recorded_file import find_file
from clozeline.report.terminal_view import show_view
from clozeline.report.views import Section, Table
from clozeline.tools.command import OutputPath, Positive, UserPath, run_as_script, run_tool

_COMPARISON: Final = re.compile(
    r"(-?\d[\d.e+-]*)(?: [a-z ]+)? ([<>]) (-?\d[\d.e+-]*)(?: by [\w. ]+)?$"
)
_MOST_DETAILS: Final = 5
"""Most details of a reason that are counted."""
_SHOWN_CHARACTERS: Final = 100
"""Length to which a text is shortened."""


@config_class
class FilterReportOptions:
    """A run of the pipeline, and how much of it is shown."""

    out: Annotated[UserPath, Positional(0)]
    """output folder of a pipeline run"""
    most: Positive = 3
    """documents on each side of a threshold, or examples of a reason without one"""
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
    """What was rejected for a reason: on either side of a threshold, or the first ones."""

    decided_by: str
    """step, and the key whose value it compared with"""
    rejected: int = 0
    below: list[Neighbor] = field(default_factory=list)  # rejected ones
    above: list[Neighbor] = field(default_factory=list)  # kept ones
    details: Counter[str] = field(default_factory=Counter)
    """what the rejections say, such as the language"""
    first: list[tuple[str, str, str]] = field(default_factory=list)
    """detail, origin and text of the first ones without a threshold"""


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
        for row in read_rejections(find_file(folder, f"main/{part}", rejects_name(part))):
            is_malformed = row.stage == READ_STAGE
            name = f"malformed: {row.reason}" if is_malformed else row.reason
            reason = reasons.setdefault(name, Reason("input" if is_malformed else "clean"))
            reason.rejected += 1
            example = (
                row.detail,
                row.url or f"{row.source} at {row.offset:,}",
                row.sample_text or "",
            )
            if (match := _COMPARISON.search(row.detail)) is not None and not is_malformed:
                _keep_nearest(
                    reason.below, most, float(match[1]), float(match[3]), row.uid, *example
                )
                continue
            reason.details[row.detail] += 1
            if len(reason.first) < most:
                reason.first.append(example)

    # of malformed records, only the first are listed
    for name, count in total_counts(folder, "main").get("malformed", {}).items():
        if count:
            reasons.setdefault(f"malformed: {name}", Reason("input")).rejected = count

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


def report_view(out: Path, reasons: Mapping[str, Reason], measured: int) -> Section:
    """Return the tables of a report."""
    total = sum(outcome.rejected for outcome in reasons.values())
    ranked = sorted(reasons.items(), key=lambda item: -item[1].rejected)
    rows = tuple(
        (name, f"{outcome.rejected:,}", outcome.decided_by, _count_details(outcome.details))
        for name, outcome in ranked
        if outcome.rejected
    )

    header = ("reason", "number", "decided by", "of them")
    sheets = [Table("Rejected documents and malformed records", header, rows)]

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
        if outcome.first:
            examples = [(origin, why, _start(text)) for why, origin, text in outcome.first]
            sheets.append(Table(name, ("from", "what is wrong", "text"), examples))

    summary = (
        f"{total:,} documents and records rejected, {plural(measured, 'kept document')} measured"
    )
    return Section(f"{out}: {summary}", tuple(sheets))


def _count_details(details: Counter[str]) -> str:
    """Return the most frequent details that are said of several rejections."""
    common = details.most_common(_MOST_DETAILS)
    return ", ".join(f"{count:,} {detail}" for detail, count in common if detail and count > 1)


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
    show_view(view, options.html)


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, FilterReportOptions, _report, prints=True)


if __name__ == "__main__":
    run_as_script(main)
