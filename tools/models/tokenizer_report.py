"""Show how a tokenizer splits each language: `clozeline tokenizer-report TOKENIZER STAGE`.

TOKENIZER is a folder that `train_tokenizer` or `tokenizer` wrote. STAGE is the folder of a stage that writes documents,
such as `OUTPUT/dedup`. One row per language: tokens per word (fertility) and per UTF-8 byte, the share of unknown
tokens, and the share of non-special ids that occur. Words are separated by white space; compare languages without it
by bytes.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.preview.view import Sheet, View, show_view
from clozeline.pipeline.ingest.documents.files import documents_of, read_documents
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, load_tokenizer
from clozeline.tools.command import Arguments, run_tool, some_path

_BATCH_TEXTS: Final = 256
_HEADER: Final = ("language", "texts", "words", "tokens", "tokens a word", "tokens a byte", "% unknown", "% of ids")


@dataclass
class LanguageFigures:
    """Counts over the texts of one language."""

    texts: int = 0
    words: int = 0
    bytes: int = 0
    """of UTF-8"""
    tokens: int = 0
    unknown: int = 0
    """tokens for text that the vocabulary cannot represent"""
    used: set[int] = field(default_factory=set)
    """ids that occur and are not special"""


def measure(tokenizer: Tokenizer, texts: Iterable[tuple[str, str]]) -> dict[str, LanguageFigures]:
    """Encode pairs of language and text; return the counts per language."""
    vocabulary, by_language = tokenizer.vocabulary, dict[str, LanguageFigures]()
    unknown = vocabulary.specials.get("unk", -1)  # never an id
    remaining = iter(texts)
    while batch := list(islice(remaining, _BATCH_TEXTS)):
        for (language, text), encoding in zip(batch, tokenizer.encode([text for _, text in batch]), strict=True):
            figures = by_language.setdefault(language, LanguageFigures())
            figures.texts += 1
            figures.words += len(text.split())
            figures.bytes += len(text.encode())
            figures.tokens += len(encoding.ids)
            figures.unknown += int((encoding.ids == unknown).sum())
            ids = np.unique(encoding.ids)
            figures.used.update(ids[~vocabulary.special[ids]].tolist())
    return by_language


def _read_texts(stage: Path) -> Iterator[tuple[str, str]]:
    files, records = (stage / "documents").glob("[0-9]*.arrow"), (stage / "records").glob("[0-9]*.json")
    units = {int(path.stem) for path in files}
    if not units:
        raise ConfigurationError(
            f"{stage}: expected the folder of a stage that writes documents, such as OUTPUT/dedup; no "
            "documents/*.arrow here"
        )
    for unit in sorted(units | {int(path.stem) for path in records}):  # a missing file is an error
        for document in read_documents(documents_of(stage, unit)):
            yield document.language, document.text
            if document.target_text is not None:
                yield document.target_language or "und", document.target_text


def _build_table(tokenizer: Tokenizer, by_language: dict[str, LanguageFigures]) -> Sheet:
    usable, lines = len(tokenizer.vocabulary.replaceable), []
    for language, row in sorted(by_language.items(), key=lambda item: (-item[1].tokens, item[0])):
        # part, total and digits of each ratio
        ratios = [(row.tokens, row.words, 2), (row.tokens, row.bytes, 3), (100 * row.unknown, row.tokens, 3),
                  (100 * len(row.used), usable, 2)]  # fmt: skip
        amounts = [f"{amount:,}" for amount in (row.texts, row.words, row.tokens)]
        shown = [f"{part / total:.{digits}f}" if total else "–" for part, total, digits in ratios]
        lines.append((language, *amounts, *shown))
    return Sheet("languages", _HEADER, tuple(lines))


def main(arguments: Sequence[str]) -> int:
    parser = Arguments(__doc__)
    parser.add_argument(
        "tokenizer", type=some_path, help="folder of a tokenizer, such as OUTPUT/train_tokenizer/tokenizer"
    )
    parser.add_argument("stage", type=some_path, help="folder of a stage that writes documents, such as OUTPUT/dedup")

    def action(options: argparse.Namespace) -> None:
        tokenizer = load_tokenizer(options.tokenizer)
        sheet = _build_table(tokenizer, measure(tokenizer, _read_texts(options.stage)))
        show_view(View(f"{options.tokenizer}", (sheet,)), None)

    return run_tool(parser, arguments, action, prints=True)
