"""The step of `clean` that identifies the language of a document, and decides whether it stays."""

from clozeline.pipeline.clean.languages import UNDECIDED, LanguageRule
from clozeline.pipeline.clean.languages._line_rule import KeptLines
from clozeline.pipeline.clean.unit_counts import UnitCounts
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.registries import LanguageComponent


class LanguageStep:
    """Identifies languages; without an identifier, documents keep the language of their record."""

    def __init__(self, identifier: LanguageComponent | None, tally: UnitCounts) -> None:
        self._rule = None if identifier is None else LanguageRule(identifier)
        self._tally = tally

    def identify(self, document: Document, stated_language: str | None) -> Document | None:
        """Return the document with its language, or None if it was rejected.

        `stated_language` is that of the configuration of the input.
        """
        if stated_language is not None:
            return document.replace(language=stated_language, language_score=1.0)
        if self._rule is None:
            return document
        if document.language != UNDECIDED:  # the record states its language
            if not self._rule.accepts(document.language):
                self._tally.reject(document, "language", document.language, "language")
                return None
            return document

        if (kept := self._rule.keep_lines(document.text)) is not None:
            return self._keep_lines(document, kept)

        language, score, reason, detail = self._rule.judge(document.text)
        document = document.replace(language=language, language_score=score)
        if reason:
            self._tally.reject(document, reason, detail, "language")
            return None
        return document

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
