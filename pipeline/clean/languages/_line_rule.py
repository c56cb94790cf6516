"""Keep the lines of a text that are in wanted languages, as OSCAR does (arXiv:2201.06642)."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from clozeline.errors import plural

_MIXED_SHARE: Final = 0.1
"""Least share of the characters of a text in a language that makes it one of its languages."""


class LineAnswer(NamedTuple):
    """The language of a line and its score."""

    language: str
    score: float


class KeptLines(NamedTuple):
    """The kept lines of a text, and what was dropped."""

    text: str
    """kept lines, without empty lines at the ends"""
    language: str
    """language of the most characters of kept lines, of all lines if none is kept"""
    score: float
    """mean score of the judged lines in that language, by their characters"""
    languages: tuple[str, ...]
    """languages with a tenth of the characters, dropped ones included, the most characters first"""
    lines_dropped: Counter[str]
    """dropped lines by language"""
    characters_dropped: Counter[str]
    """their characters by language, line ends included"""

    def describe_dropped(self) -> str:
        """Return the dropped lines by language, such as `7 lines: 5 nl, 2 fr`."""
        listed = (f"{count} {language}" for language, count in self.lines_dropped.most_common())
        return f"{plural(self.lines_dropped.total(), 'line')}: {', '.join(listed)}"


def keep_lines(
    text: str, identify: Callable[[str], LineAnswer | None], is_wanted: Callable[[str], bool]
) -> KeptLines | None:
    """Return the lines of a text whose language is wanted; None if no line has an answer.

    A line without an answer, such as a short or an empty one, belongs to the line before it that
    has one; at the start of the text, to the first one.
    """
    lines = text.split("\n")
    answers = list(map(identify, lines))
    languages = list(_fill(answers))
    if not languages:
        return None

    characters: Counter[str] = Counter()
    lines_dropped: Counter[str] = Counter()
    characters_dropped: Counter[str] = Counter()
    kept = []
    for line, language in zip(lines, languages, strict=True):
        characters[language] += len(line) + 1
        if is_wanted(language):
            kept.append(line)
        else:
            lines_dropped[language] += 1
            characters_dropped[language] += len(line) + 1

    remaining = characters - characters_dropped or characters
    language = min(remaining, key=lambda each: (-remaining[each], each))
    shared = [
        each
        for each, count in sorted(characters.items(), key=lambda item: (-item[1], item[0]))
        if count >= _MIXED_SHARE * characters.total()
    ]
    return KeptLines(
        "\n".join(kept).strip("\n") if lines_dropped else text,
        language,
        _mean_score(lines, answers, language),
        tuple(shared),
        lines_dropped,
        characters_dropped,
    )


def _fill(answers: Sequence[LineAnswer | None]) -> Iterator[str]:
    """Yield a language for each line; nothing if no line has an answer."""
    language = next((answer.language for answer in answers if answer), None)
    if language is None:
        return
    for answer in answers:
        language = language if answer is None else answer.language
        yield language


def _mean_score(lines: Sequence[str], answers: Sequence[LineAnswer | None], language: str) -> float:
    judged = [
        (len(line), answer.score)
        for line, answer in zip(lines, answers, strict=True)
        if answer and answer.language == language
    ]
    return sum(size * score for size, score in judged) / sum(size for size, _ in judged)
