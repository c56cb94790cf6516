"""Keep the lines of a text that are in wanted languages, as OSCAR does (arXiv:2201.06642)."""

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from clozeline.errors import plural

_MIXED_SHARE: Final = 0.1
"""Least share of the characters of a text in a language that makes it one of its languages."""

Answer: TypeAlias = tuple[str, float]
"""A language and its score."""


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
    text: str, identify: Callable[[str], Answer | None], is_wanted: Callable[[str], bool]
) -> KeptLines | None:
    """Return the lines of a text whose language is wanted; None if no line has an answer.

    A line without an answer, such as a short or an empty one, belongs to the line before it that
    has one; at the start of the text, to the first one.
    """
    lines = text.split("\n")
    answers = list(map(identify, lines))
    owner = next(filter(None, answers), None)
    if owner is None:
        return None

    characters: Counter[str] = Counter()
    lines_dropped: Counter[str] = Counter()
    kept = []
    for line, answer in zip(lines, answers, strict=True):
        owner = answer or owner
        characters[owner[0]] += len(line) + 1
        if is_wanted(owner[0]):
            kept.append(line)
        else:
            lines_dropped[owner[0]] += 1

    ranked = sorted(characters, key=lambda each: (-characters[each], each))
    language = next(filter(is_wanted, ranked), ranked[0])
    judged = [
        (len(line), answer[1])
        for line, answer in zip(lines, answers, strict=True)
        if answer and answer[0] == language
    ]
    least = _MIXED_SHARE * characters.total()
    return KeptLines(
        "\n".join(kept).strip("\n") if lines_dropped else text,
        language,
        sum(size * score for size, score in judged) / sum(size for size, _ in judged),
        tuple(each for each in ranked if characters[each] >= least),
        lines_dropped,
        Counter({each: characters[each] for each in lines_dropped}),
    )
