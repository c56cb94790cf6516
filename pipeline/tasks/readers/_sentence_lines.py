"""Files of one word a line and a blank line between sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers._task_items import Rejected
from clozeline.pipeline.tasks.readers._text_lines import text_lines


@dataclass(slots=True)
class SentenceLines:
    """The lines of one sentence.

    Args:
        place: number of the first.
        lines: their texts.
        damage: reason of the first line without text; empty: none.
    """

    index: int
    lines: list[str] = field(default_factory=list)
    damage: str = ""


def sentence_lines(path: Path, limits: Limits) -> Iterator[SentenceLines]:
    """Yield the sentences of a file, without blank lines.

    Args:
        path: the file, plain or compressed.
        limits: bounds on lines and decompression.
    """
    sentence: SentenceLines | None = None
    for number, line in text_lines(path, limits):
        if isinstance(line, str) and not line.strip():
            if sentence is not None:
                yield sentence
            sentence = None
            continue
        sentence = sentence or SentenceLines(number)
        if isinstance(line, Rejected):
            sentence.damage = sentence.damage or line.reason
        else:
            sentence.lines.append(line)
    if sentence is not None:
        yield sentence


def sentence_count(path: Path, limits: Limits, mark: str | None = None) -> int:
    """Return how many sentences a file has, without those that consist of lines beginning with `mark`."""

    def is_blank(line: str | Rejected) -> bool:
        return isinstance(line, str) and not line.strip()

    def is_mark(line: str | Rejected) -> bool:
        return isinstance(line, str) and mark is not None and line.startswith(mark)

    runs = groupby((line for _, line in text_lines(path, limits)), key=is_blank)
    return sum(not blank and not all(map(is_mark, run)) for blank, run in runs)
