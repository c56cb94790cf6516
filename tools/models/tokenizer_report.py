"""Show how a tokenizer splits each language.

    clozeline tokenizer-report mine/data/train_tokenizer mine/data/dedup

TOKENIZER is a folder that `train_tokenizer` or `tokenizer` wrote. STAGE is the folder of a stage
that writes documents, such as `OUTPUT/dedup`. One row per language: tokens per word (fertility) and
per UTF-8 byte, the shares of unknown tokens and of the characters that they stand for, and the
share of non-special ids that occur. Words are separated by white space; compare languages without
it by bytes. Below it are the reasons for unknown text, and the ways out. `merges=20` also prints
the first 20 merges of byte-pair encoding, with the count of each pair in the documents.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import numpy as np

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.pipeline.ingest.documents.files import read_all_documents
from clozeline.pipeline.tokenize.merge_steps import MergeStep, replay_merges
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, load_tokenizer
from clozeline.pipeline.tokenize.unknown_text import UnknownShares, UnknownText
from clozeline.report.terminal_view import show_view
from clozeline.report.views import Section, Table
from clozeline.tools.command import Natural, UserPath, run_as_script, run_tool

_BATCH_TEXTS: Final = 256
_HEADER: Final = (
    "language",
    "texts",
    "words",
    "tokens",
    "tokens per word",
    "tokens per byte",
    "% tokens not known",
    "% text not known",
    "% of ids",
)


@config_class
class ReportOptions:
    """A tokenizer, and documents to split."""

    tokenizer: Annotated[UserPath, Positional(0)]
    """folder of a tokenizer, such as OUTPUT/train_tokenizer/tokenizer"""
    stage: Annotated[UserPath, Positional(1)]
    """folder of a stage that writes documents, such as OUTPUT/dedup"""
    merges: Natural = 0
    """Number of merges of byte-pair encoding to print, in the order in which they were learned."""


@dataclass
class LanguageFigures:
    """Counts over the texts of one language."""

    texts: int = 0
    words: int = 0
    bytes: int = 0
    """of UTF-8"""
    tokens: int = 0
    used: set[int] = field(default_factory=set)
    """ids that occur and are not special"""


def measure(
    tokenizer: Tokenizer, texts: Iterable[tuple[str, str]]
) -> tuple[dict[str, LanguageFigures], UnknownText]:
    """Encode pairs of language and text, and count tokens.

    Return the counts per language, and the counts of unknown text.
    """
    vocabulary = tokenizer.vocabulary
    by_language = dict[str, LanguageFigures]()
    unknown = UnknownText(tokenizer)
    remaining = iter(texts)
    while batch := list(islice(remaining, _BATCH_TEXTS)):
        for (language, text), encoding in zip(
            batch, tokenizer.encode([text for _, text in batch]), strict=True
        ):
            figures = by_language.setdefault(language, LanguageFigures())
            figures.texts += 1
            figures.words += len(text.split())
            figures.bytes += len(text.encode())
            figures.tokens += len(encoding.ids)
            unknown.add(language, text, encoding)
            ids = np.unique(encoding.ids)
            figures.used.update(ids[~vocabulary.special[ids]].tolist())

    return by_language, unknown


def _read_texts(stage: Path) -> Iterator[tuple[str, str]]:
    for document in read_all_documents(stage / "documents"):
        yield document.language, document.text
        if document.target_text is not None:
            yield document.target_language or "und", document.target_text


def _build_tables(
    tokenizer: Tokenizer, by_language: dict[str, LanguageFigures], unknown: UnknownText
) -> list[Table]:
    usable = int((~tokenizer.vocabulary.special).sum())
    lines = []

    for language, row in sorted(by_language.items(), key=lambda item: (-item[1].tokens, item[0])):
        text = unknown.by_language[language]
        # part, total and digits of each ratio
        ratios = [
            (row.tokens, row.words, 2),
            (row.tokens, row.bytes, 3),
            (100 * text["unknown_tokens"], row.tokens, 3),
            (100 * text["unknown_characters"], text["characters"], 2),
            (100 * len(row.used), usable, 2),
        ]
        amounts = [f"{amount:,}" for amount in (row.texts, row.words, row.tokens)]
        shown = [f"{part / total:.{digits}f}" if total else "–" for part, total, digits in ratios]
        lines.append((language, *amounts, *shown))

    sheets = [Table("languages", _HEADER, tuple(lines))]
    if reasons := [(line,) for line in UnknownShares.of(unknown.counts()).explanation()]:
        sheets.append(Table("unknown text", ("reason, and what can be done",), tuple(reasons)))
    return sheets


def _merge_table(steps: Iterable[MergeStep]) -> Table:
    rows = tuple(
        (
            str(number),
            f"{step.left} {step.right}",
            f"{step.occurrences:,}",
            step.left + step.right,
            step.word,
        )
        for number, step in enumerate(steps, 1)
    )
    return Table("merges", ("step", "pair", "count", "new piece", "first word with it"), rows)


def _report(options: ReportOptions) -> None:
    tokenizer = load_tokenizer(options.tokenizer)
    sheets = _build_tables(tokenizer, *measure(tokenizer, _read_texts(options.stage)))
    if options.merges:
        texts = (text for _, text in _read_texts(options.stage))
        steps = replay_merges(options.tokenizer, texts, options.merges)
        sheets.append(_merge_table(steps))
    show_view(Section(f"{options.tokenizer}", sheets), None)


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, ReportOptions, _report, prints=True)


if __name__ == "__main__":
    run_as_script(main)
