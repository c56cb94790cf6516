"""Derive lists of stop words from documents: `clozeline stop-words OUT output=DIR`.

OUT is the output of a pipeline, or the `documents` of a stage. For each language, the list has the words that make up
at least 0.8 % of its text, and the eight most frequent ones if there are fewer. In scripts without blanks, such as
Chinese and Thai, it has frequent strings of characters. `gopher_quality` reads the folder: `stop_words_from: DIR`. One
genre leaves traces in a list: take documents of several.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.configuration.home_folder import HOME_EXPANDED
from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.stage_order import last_documents
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import read_all_documents
from clozeline.pipeline.text.stop_words import STRINGS, write_stop_words
from clozeline.pipeline.text.word_tokens import word_tokens
from clozeline.tools.command import IntermixedArguments, plural, run_tool, some_path
from clozeline.tools.settings import add_settings, settings_of


@config_class
class StopWordOptions:
    """Documents that are counted, and words that are taken."""

    output: Annotated[Path, HOME_EXPANDED]
    """new folder, with a file for each language"""
    share: Annotated[float, Field(gt=0, lt=1)] = 0.008
    """lowest share of a word among the words of its language"""
    least: Annotated[int, Field(ge=1)] = 8
    """words of a list at least, the most frequent ones"""
    score: Annotated[float, Field(ge=0, le=1)] = 0.95
    """lowest score of the language of a document that is counted"""
    documents: Annotated[int, Field(ge=1)] = 20
    """documents of a language at least; for others there is no list"""


def count_words(documents: Iterable[Document], options: StopWordOptions) -> dict[str, list[str]]:
    """Return the stop words of each language, the most frequent first."""
    counts: dict[str, Counter[str]] = {}
    texts: Counter[str] = Counter()
    for document in documents:
        if document.language_score < options.score:
            continue
        lengths = STRINGS.get(document.language)
        counted = counts.setdefault(document.language, Counter())
        texts[document.language] += 1
        if lengths is None:
            counted.update(word for word in word_tokens(document.text) if word.isalpha())
            continue
        text = document.text
        counted.update(
            string for length in lengths for start in range(len(text) - length + 1)
            if (string := text[start : start + length]).isalpha()
        )  # fmt: skip
    lists = {}
    for language, counted in sorted(counts.items()):
        if texts[language] < options.documents:
            continue
        # strings overlap: each length is a text of its own
        total = counted.total() / len(STRINGS.get(language, (1,)))
        ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
        frequent = [word for word, count in ordered if count >= options.share * total]
        lists[language] = frequent if len(frequent) >= options.least else [word for word, _ in ordered[: options.least]]
    return lists


def _run(options: argparse.Namespace) -> None:
    chosen = settings_of(StopWordOptions, options.overrides)
    if chosen.output.exists():
        raise ConfigurationError(f"output: {chosen.output} exists; choose a new folder, or remove it")
    folder = options.folder if any(options.folder.glob("*.arrow")) else last_documents(options.folder)
    lists = count_words(read_all_documents(folder), chosen)
    if not lists:
        raise ConfigurationError(
            f"{options.folder}: expected a language with {chosen.documents} documents of score {chosen.score} or more, "
            "got none; give more documents, or lower `documents` or `score`"
        )
    write_stop_words(chosen.output, lists)
    for language, words in lists.items():
        sys.stdout.write(f"{language}: {plural(len(words), 'word')}: {' '.join(words)}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = IntermixedArguments(__doc__)
    parser.add_argument("folder", type=some_path, metavar="OUT", help="output of a pipeline, or `documents` of a stage")
    add_settings(parser, StopWordOptions)
    return run_tool(parser, arguments, _run)


if __name__ == "__main__":
    raise SystemExit(main())
