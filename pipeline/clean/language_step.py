"""The step of `clean` that identifies the language of a document, and decides whether it stays."""

from clozeline.pipeline.clean.languages import MIXED_COLUMN, UNDECIDED, LanguageRule
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
                self._reject(document, "language", document.language)
                return None
            return document

        if self._rule.is_by_line:
            kept = self._rule.keep_lines(document.text)
            if kept is not None:
                return self._keep_lines(document, kept)

        language, score, reason, detail = self._rule.judge(document.text)
        document = document.replace(language=language, language_score=score)
        if reason:
            self._reject(document, reason, detail)
            return None
        return document

    def _keep_lines(self, document: Document, kept: KeptLines) -> Document | None:
        """Return the document with its kept lines, or None if it has none."""
        document = document.replace(language=kept.language, language_score=kept.score)
        if len(kept.languages) > 1:
            self._tally.note("several_languages")
            mixed = {MIXED_COLUMN: " ".join(kept.languages)}
            document = document.replace(extra={**document.extra, **mixed})

        if not kept.text:
            self._reject(document, "language", kept.describe_dropped())
            return None
        if kept.lines_dropped:
            self._tally.count_cut("language", document.characters - len(kept.text))
            self._tally.add(
                {
                    "lines_dropped": kept.lines_dropped,
                    "line_characters_dropped": kept.characters_dropped,
                }
            )
        return document.replace(text=kept.text)

    def _reject(self, document: Document, reason: str, detail: str) -> None:
        self._tally.reject(document, reason, detail)
        self._tally.count_cut("language", document.characters)
