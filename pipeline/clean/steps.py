"""One document through the steps of cleaning: length, normal form, language, filters."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

import xxhash

from clozeline.pipeline.clean.extractors import EXTRACTION_REASONS
from clozeline.pipeline.clean.filters import Filter
from clozeline.pipeline.clean.languages import LanguageIdentifier, LanguageOptions
from clozeline.pipeline.clean.unit_counts import UnitCounts, characters_of
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.text.normal_form import count_control_characters, normalize
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.registry import Chosen


class Steps:
    """The steps of one source, built once a unit. Each returns the document for the next step, or None once rejected.

    A pair of aligned texts has both sides normalized; its languages are those of the configuration, and only filters
    that are named for its source look at its text.
    """

    def __init__(
        self,
        language: Chosen | None,
        filters: Sequence[Chosen],
        pair_filters: Sequence[Chosen],
        text_chars: int,
        tally: UnitCounts,
    ) -> None:
        self._identifier: LanguageIdentifier | None = None if language is None else language.build()
        self._wanted: LanguageOptions | None = None if language is None else language.options
        self._filters: list[tuple[str, Filter]] = [(chosen.name, chosen.build()) for chosen in filters]
        self._pair_filters: list[tuple[str, Filter]] = [(chosen.name, chosen.build()) for chosen in pair_filters]
        self._text_chars = text_chars
        self._tally = tally
        self.reasons = ["too_long", "empty", *EXTRACTION_REASONS, *(["language", "language_score"] if language else [])]
        self.reasons += [reason for _, step in self._filters for reason in step.reasons]

    def clean(
        self, document: Document, given_language: str | None, target_language: str | None = None
    ) -> Document | None:
        """Return the finished document, or None where it was rejected.

        Args:
            document: with the text as read or extracted.
            given_language: the language that the input's configuration states; it is not identified then.
            target_language: the same for the other side of a pair.
        """
        self._tally.add({"characters_in": characters_of(document)})
        normal = self._normalized(document)
        if normal is not None and normal.target_text is not None:
            normal = self._with_other_side(normal)
            given_language = given_language or "und"
        named = None if normal is None else self._named(normal, given_language)
        if named is not None and named.target_text is not None:
            named = named.having(target_language=target_language or "und")
        return None if named is None else self._filtered(named)

    def _normalized(self, document: Document) -> Document | None:
        raw = document.text
        if len(raw) > self._text_chars:
            self._tally.reject(document, "limits", "too_long", f"{len(raw)} characters > {self._text_chars}")
            return None
        text = normalize(raw)
        if controls := count_control_characters(raw):
            self._tally.add({"repairs": {"control_characters": controls}})
        self._tally.removed("normalise", len(raw) - len(text))
        document = document.having(text=text)
        if not text:
            self._tally.reject(document, "normalise", "empty" if document.target_text is None else "empty_side")
            return None
        return document

    def _with_other_side(self, document: Document) -> Document | None:
        raw = document.target_text or ""
        if len(raw) > self._text_chars:
            detail = f"other side: {len(raw)} characters > {self._text_chars}"
            self._tally.reject(document, "limits", "too_long", detail)
            return None
        target = normalize(raw)
        if controls := count_control_characters(raw):
            self._tally.add({"repairs": {"control_characters": controls}})
        self._tally.removed("normalise", len(raw) - len(target))
        document = document.having(target_text=target)
        if not target:
            self._tally.reject(document, "normalise", "empty_side")
            return None
        return document

    def _named(self, document: Document, given: str | None) -> Document | None:
        if given is not None:
            return document.having(language=given, language_score=1.0)
        if self._identifier is None or self._wanted is None:
            return document
        language, score = self._identifier.identify(document.text)
        document = document.having(language=language, language_score=score)
        if not self._wanted.keep:
            return document
        if language not in self._wanted.keep:
            self._tally.reject(document, "language", "language", language)
            return None
        if score < self._wanted.threshold:
            detail = f"{language} {score:.3f} < {self._wanted.threshold}"
            self._tally.reject(document, "language", "language_score", detail)
            return None
        return document

    def _filtered(self, document: Document) -> Document | None:
        statistics = TextStatistics(document.text)
        for name, step in self._filters if document.target_text is None else self._pair_filters:
            verdict = step.judge(statistics, document.language)
            if verdict.reason:
                self._tally.reject(document, name, verdict.reason, verdict.detail)
                return None
            if verdict.text is not None:
                self._tally.removed(name, len(document.text) - len(verdict.text))
                self._tally.edit(document, name, verdict)
                document = document.having(text=verdict.text)
                statistics = TextStatistics(verdict.text)
        return document.having(
            content_hash=xxhash.xxh3_128_digest(_content(document)),
            n_chars=len(document.text),
            n_words=statistics.words,
        )


def _content(document: Document) -> bytes:
    """Return the bytes that the content hash covers: the text, or both sides of a pair."""
    text = document.text.encode()
    return text if document.target_text is None else text + b"\0" + document.target_text.encode()


def host_of(url: str | None) -> str | None:
    """Return the host name of an address in lower case, without port; None where it has none."""
    if url is None:
        return None
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
