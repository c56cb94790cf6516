"""Read files of one word per line with blank lines between sentences."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers._task_items import Rejected
from clozeline.pipeline.tasks.readers._text_lines import text_lines


@dataclass(slots=True)
class SentenceLines:
    """The lines of one sentence."""

    index: int
    """index of its first line"""
    lines: list[str] = field(default_factory=list)
    damage: str = ""
    """reason of the first line without text; empty if there is none"""


def sentence_lines(path: Path, limits: Limits) -> Iterator[SentenceLines]:
    """Yield the sentences of a plain or compressed file."""
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
