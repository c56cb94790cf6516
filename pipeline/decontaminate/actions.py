"""Drop, mask or label a document that holds evaluation items."""

from collections.abc import Sequence
from typing import Any, Final

from clozeline.arrays import Bool
from clozeline.pipeline.decontaminate.config import ActionName
from clozeline.pipeline.decontaminate.counts import DecontaminateCounts
from clozeline.pipeline.execution.edit_samples import EditSamples, add_edit
from clozeline.pipeline.execution.unit_record import add_counts
from clozeline.pipeline.ingest.documents.document import FLAG_SPANS_REMOVED, Document
from clozeline.pipeline.ingest.documents.files import Rejection
from clozeline.pipeline.kernels.ngram_index import Matcher, NgramIndex
from clozeline.pipeline.text.normal_form import match_spans, normalize
from clozeline.pipeline.text.text_statistics import TextStatistics

ACTIONS_VERSION: Final = 1
"""Raised when a document is changed in another way."""
_AROUND: Final = 200
"""Characters that masking removes on both sides of a run (GPT-3, arXiv 2005.14165, appendix C)."""
_MOST_SPANS: Final = 10
"""Spans that masking removes from a document; one with more is dropped."""
_NAMED: Final = 10
"""Items that a label names."""


class Action:
    """Applies an action to the documents of a part, in their order, and counts what becomes of them.

    `ignored` says which entries of the index no action follows from, shape [E]; `suites` has that of each file.
    """

    def __init__(
        self, name: ActionName, index: NgramIndex, ignored: Bool, suites: Sequence[str], seed: int, edits: EditSamples
    ) -> None:
        self.name, self.index, self.ignored = name, index, ignored
        self.suites, self.seed, self.edits = suites, seed, edits
        self.rejections: list[Rejection] = []
        self.counts: DecontaminateCounts = {
            "documents_in": 0, "documents_out": 0, "characters_in": 0, "characters_out": 0, "rejected": {},
            "characters_removed": {}, "labeled": 0, "masked": 0,
        }  # fmt: skip
        self._matcher = Matcher(index) if name == "mask" else None

    def apply(self, document: Document, entries: Sequence[int]) -> Document | None:
        """Return the document, changed if it holds entries of the index; None if it is dropped."""
        before = _characters(document)
        add_counts(self.counts, {"documents_in": 1, "characters_in": before})
        if entries and self.name == "label":
            self.counts["labeled"] += 1
            document = document.replace(extra={**document.extra, "contamination": self._names(entries)[:_NAMED]})
        elif entries:
            masked = None if self._matcher is None else self._mask(document, self._matcher)
            if masked is None:
                entry = min(entries, key=lambda entry: (self.index.items_of(entry)[0], self.index.positions[entry]))
                detail = f"{self._names([entry])[0]}: {self.index.entry(entry)}"
                rejection = Rejection.of(
                    document, stage="decontaminate", reason="contaminated", detail=detail, seed=self.seed
                )
                self.rejections.append(rejection)
                removed: Any = {"contaminated": before}
                add_counts(self.counts, {"rejected": {"contaminated": 1}, "characters_removed": removed})
                return None
            origin = document.url or f"{document.source} at {document.offset:,}"
            add_edit(self.edits, "mask", document.uid, origin, document.text, masked.text)
            removed = {"mask": before - _characters(masked)}
            add_counts(self.counts, {"masked": 1, "characters_removed": removed, "edits": removed})
            document = masked
        add_counts(self.counts, {"documents_out": 1, "characters_out": _characters(document)})
        return document

    def _names(self, entries: Sequence[int]) -> list[str]:
        """Return the suites and names of the items that hold entries, in the order of the items."""
        items = sorted({item for entry in entries for item in self.index.items_of(entry).tolist()})
        return [f"{self.suites[self.index.item_files[item]]} {self.index.item_names[item]}" for item in items]

    def _mask(self, document: Document, matcher: Matcher) -> Document | None:
        """Return a document without the runs of entries and the characters around them.

        None if it is a pair, whose sides would no longer be translations, if too many spans would be removed, or if
        nothing would be left.
        """
        if document.target_text is not None:
            return None
        text, words = document.text, match_spans(document.text)
        spans: list[tuple[int, int]] = []
        for _, word, entry in matcher.find([text]):
            if not self.ignored[entry]:
                start, end = words[word][0] - _AROUND, words[word + int(self.index.sizes[entry]) - 1][1] + _AROUND
                if spans and start <= spans[-1][1]:
                    start, end = spans[-1][0], max(end, spans.pop()[1])
                spans.append((max(start, 0), end))
        ends = [0, *(end for _, end in spans)]
        starts = [*(start for start, _ in spans), len(text)]
        kept = normalize("\n\n".join(text[end:start].strip() for end, start in zip(ends, starts, strict=True)))
        # two pieces may join to a run of another item
        again = any(not self.ignored[entry] for _, _, entry in matcher.find([kept]))
        if len(spans) > _MOST_SPANS or not kept or again:
            return None
        return document.replace_text(kept, TextStatistics(kept).words, flags=document.flags | FLAG_SPANS_REMOVED)


def _characters(document: Document) -> int:
    return len(document.text) + len(document.target_text or "")
