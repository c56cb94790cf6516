"""Clean one document: extract its text, normalize it, identify the language, apply the filters."""

from collections.abc import Sequence
from dataclasses import dataclass

from clozeline.pipeline.clean.extractors._extraction import EXTRACTION_REASONS, shared_extraction
from clozeline.pipeline.clean.filters import Filter
from clozeline.pipeline.clean.languages import LANGUAGE_REASONS, LanguageRule
from clozeline.pipeline.clean.unit_counts import UnitCounts
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.text.normal_form import count_control_characters, normalize
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.registry import Chosen


@dataclass(frozen=True)
class SourceSteps:
    """Algorithms chosen for one source."""

    extractor: Chosen
    language: Chosen | None
    filters: Sequence[Chosen]
    pair_filters: Sequence[Chosen] = ()


class Steps:
    """The cleaning steps of one source, built once per unit.

    Both sides of a pair of aligned texts are normalized; their languages come from the configuration, and only filters
    named for the source see the text.
    """

    def __init__(self, source: SourceSteps, text_chars: int, tally: UnitCounts) -> None:
        self._extraction = shared_extraction(source.extractor)
        self._language = None if source.language is None else LanguageRule(source.language)
        self._filters: list[tuple[str, Filter]]
        self._pair_filters: list[tuple[str, Filter]]
        self._filters, self._pair_filters = (
            [(chosen.name, chosen.build()) for chosen in group] for group in (source.filters, source.pair_filters)
        )
        self._text_chars = text_chars
        self._tally = tally
        self.reasons = ["too_long", "empty", *EXTRACTION_REASONS, *(LANGUAGE_REASONS if self._language else [])]
        self.reasons += [reason for _, step in self._filters for reason in step.reasons]

    def clean(
        self,
        document: Document,
        given_language: str | None,
        target_language: str | None = None,
        *,
        markup: bool = False,
    ) -> Document | None:
        """Return the finished document, or None if it was rejected.

        The text of `markup` is extracted, after the filters of URLs. A language stated in the input's configuration is
        not identified.
        """
        if not self._passes_url_filters(document):
            return None
        if markup:
            page = self._extraction.extract(document.text)
            document = document.replace(text=page.text)
            if page.reason is not None:
                self._tally.reject(document, "extraction", page.reason)
                return None
            if page.lenient:
                self._tally.note("extract_fallback")
        self._tally.add({"characters_in": document.characters})
        is_pair = document.target_text is not None
        empty = "empty_side" if is_pair else "empty"
        if (text := self._normalize(document, document.text, empty)) is None:
            return None
        document = document.replace(text=text)
        if is_pair:
            if (target := self._normalize(document, document.target_text or "", empty, "other side: ")) is None:
                return None
            document = document.replace(target_text=target, target_language=target_language or "und")
            given_language = given_language or "und"
        identified = self._identify_language(document, given_language)
        return None if identified is None else self._apply_filters(identified)

    def _passes_url_filters(self, document: Document) -> bool:
        for name, step in self._filters if document.target_text is None else self._pair_filters:
            if (judge_url := getattr(step, "judge_url", None)) is not None:
                verdict = judge_url(document.url)
                if verdict.reason:
                    unread = document.replace(text="", target_text=None)
                    self._tally.reject(unread, name, verdict.reason, verdict.detail)
                    return False
        return True

    def _normalize(self, document: Document, raw: str, empty: str, side: str = "") -> str | None:
        if len(raw) > self._text_chars:
            self._tally.reject(document, "limits", "too_long", f"{side}{len(raw)} characters > {self._text_chars}")
            return None
        text = normalize(raw)
        if text != raw and (controls := count_control_characters(raw)):
            self._tally.add({"repairs": {"control_characters": controls}})
        self._tally.count_removal("normalise", len(raw) - len(text))
        if not text:
            # the counts of removed characters must see the document without the side that is gone
            shown = document.replace(target_text=text) if side else document.replace(text=text)
            self._tally.reject(shown, "normalise", empty)
            return None
        return text

    def _identify_language(self, document: Document, given_language: str | None) -> Document | None:
        if given_language is not None:
            return document.replace(language=given_language, language_score=1.0)
        if self._language is None:
            return document
        language, score, reason, detail = self._language.judge(document.text)
        document = document.replace(language=language, language_score=score)
        if reason:
            self._tally.reject(document, "language", reason, detail)
            return None
        return document

    def _apply_filters(self, document: Document) -> Document | None:
        statistics = TextStatistics(document.text)
        for name, step in self._filters if document.target_text is None else self._pair_filters:
            verdict = step.judge(statistics, document.language)
            if verdict.note:
                self._tally.note(verdict.note)
            if verdict.reason:
                self._tally.reject(document, name, verdict.reason, verdict.detail)
                return None
            if verdict.columns:
                document = document.replace(extra={**document.extra, **verdict.columns})
            if verdict.text is not None:
                self._tally.count_removal(name, len(document.text) - len(verdict.text))
                self._tally.count_edit(name, verdict.removed)
                document = document.replace(text=verdict.text, flags=document.flags | verdict.flags)
                statistics = TextStatistics(verdict.text)
        return document.replace_text(document.text, statistics.words)
