"""The step of `clean` that identifies the language of a document, and decides whether it stays."""

from clozeline.pipeline.clean.languages import (
    UNDECIDED,
    LanguageIdentifier,
    LanguageOptions,
    find_labels,
)
from clozeline.pipeline.clean.unit_counts import UnitCounts
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.registries import LanguageComponent
from clozeline.pipeline.text.language_codes import names_language


class LanguageStep:
    """Decides by language and score whether a document is kept.

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
