"""Judge documents with a filter of datatrove, or of a user who wrote one for it."""

from typing import Any

from clozeline import plugins
from clozeline.configuration.config import config_class
from clozeline.extensions.datatrove.blocks import BlockOptions, build_block, to_datatrove
from clozeline.pipeline.clean.filters import Document, Filter, TextStatistics, Verdict
from clozeline.pipeline.ingest.formats.portable_json import to_portable_json
from clozeline.pipeline.text.normal_form import normalize


class Datatrove(Filter):
    """Keeps what a filter of datatrove keeps, with its edits of texts and metadata.

    The name of its class comes before the reason that it gives:
    `gopher_quality_filter.gopher_short_doc`. New or changed metadata goes to `extra`.
    """

    VERSION = 1
    has_further_reasons = True

    @config_class
    class Options(BlockOptions):
        """The filter and its arguments."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.label = plugins.short_name(options.block)
        base = "datatrove.pipeline.filters.base_filter:BaseFilter"
        self._step = build_block(options, base, _answer)

    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        """Return the verdict of the filter on the text as it is stored."""
        judged = to_datatrove(document)
        before = dict(judged.metadata)
        is_kept, reason = _decide(self._step, judged)
        if not is_kept:
            return Verdict(f"{self.label}.{reason}" if reason else self.label)
        text = document.text if judged.text == document.text else normalize(judged.text)
        if document.text and not text:
            return Verdict(f"{self.label}.empty", "no text is left")

        changed = {
            name: value
            for name, value in judged.metadata.items()
            if name not in before or before[name] != value
        }
        columns = to_portable_json(changed)
        if text == document.text:
            return Verdict(columns=columns)
        removed = {"text": len(document.text) - len(text)}
        return Verdict(text=text, removed=removed, columns=columns)


def _decide(step: Any, document: Any) -> tuple[bool, str]:
    """Return whether a filter keeps a document of datatrove, and the reason if not."""
    (result,) = step.filter_batch([document])
    is_kept, reason = result if isinstance(result, tuple) else (result, None)
    return bool(is_kept), str(reason or "")


def _answer(step: Any, text: str) -> object:
    """Return all that a filter decides on a text, for the search for state."""
    url = "https://example.org/page"
    document = to_datatrove(Document(bytes(16), text, "probe", url=url, language="en"))
    return _decide(step, document), document.text, document.metadata
