"""The step of `clean` that identifies the language of a document, and decides whether it stays.

Of single lines, those in wanted languages stay, as in OSCAR (arXiv:2201.06642).
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from clozeline.errors import plural
from clozeline.pipeline.clean.languages import (
    FEWEST_LETTERS,
    UNDECIDED,
    Answer,
    LanguageIdentifier,
    LanguageOptions,
    find_labels,
)
from clozeline.pipeline.clean.unit_counts import UnitCounts
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.registries import LanguageComponent
from clozeline.pipeline.text.language_codes import names_language

_MIXED_SHARE: Final = 0.1
"""Least share of the characters of a text in a language that makes it one of its languages."""


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


class LanguageStep:
    """Decides by language and score whether a document, or a line of it, is kept.

    Without an identifier, documents keep the language of their record.
    """

    def __init__(self, component: LanguageComponent | None, tally: UnitCounts) -> None:
        self._component = component
        self._tally = tally
        if component is None:
            return
        self._identifier: LanguageIdentifier = component.build()
        self._options: LanguageOptions = component.options
        labels = {*self._identifier.languages(), UNDECIDED}
        kept = {label for code in self._options.keep for label in find_labels(code, labels)}
        self._kept = kept if self._options.keep else labels

    def identify(self, document: Document, stated_language: str | None) -> Document | None:
        """Return the document with its language, or None if it was rejected.

        `stated_language` is that of the configuration of the input.
        """
        if stated_language is not None:
            return document.replace(language=stated_language, language_score=1.0)
        if self._component is None:
            return document
        if document.language != UNDECIDED:  # the record states its language
            keep = self._options.keep
            if keep and not any(names_language(document.language, code) for code in keep):
                self._tally.reject(document, "language", document.language, "language")
                return None
            return document

        if self._options.by == "line":
            kept = keep_lines(document.text, self._identify_line, self._kept.__contains__)
            if kept is not None:
                return self._keep_lines(document, kept)

        language, score, reason, detail = self.judge(document.text)
        document = document.replace(language=language, language_score=score)
        if reason:
            self._tally.reject(document, reason, detail, "language")
            return None
        return document

    def judge(self, text: str) -> tuple[str, float, str, str]:
        """Return language and score of a text, and reason and detail of a rejection or ""."""
        language, score = self._identifier.identify(text)
        if language not in self._kept:
            return language, score, "language", language
        least, key = self._options.minimum_score(language, len(text))
        if self._options.keep and score < least:
            detail = f"{language} {score:.3f} < {least:.3f} by {key}"
            return language, score, "language_score", detail
        return language, score, "", ""

    def _identify_line(self, line: str) -> Answer | None:
        if len(line) < FEWEST_LETTERS:
            return None
        language, score = self._identifier.identify(line)
        is_clear = score >= self._options.minimum_score(language, len(line))[0]
        return (language, score) if is_clear and language != UNDECIDED else None

    def _keep_lines(self, document: Document, kept: KeptLines) -> Document | None:
        """Return the document with its kept lines, or None if it has none."""
        document = document.replace(language=kept.language, language_score=kept.score)
        if len(kept.languages) > 1:
            self._tally.note("several_languages")
            mixed = {"line_languages": " ".join(kept.languages)}
            document = document.replace(extra={**document.extra, **mixed})

        if not kept.text:
            self._tally.reject(document, "language", kept.describe_dropped(), "language")
            return None
        if kept.lines_dropped:
            self._tally.add(
                {
                    "cut": {"language": document.characters - len(kept.text)},
                    "lines_dropped": kept.lines_dropped,
                    "line_characters_dropped": kept.characters_dropped,
                }
            )
        return document.replace(text=kept.text)
