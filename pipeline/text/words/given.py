"""Words that come with the documents, from a segmenter of somebody else, or from a treebank."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from clozeline.configuration.config import config_class
from clozeline.pipeline.text.normal_form import normalize
from clozeline.pipeline.text.words import Segmenter

_MOST_SKIPPED: Final = 1000
"""Characters between two words in which the next one is looked for."""


class Given(Segmenter):
    """Reads the words of a document from one of its fields, a list of texts in order.

    Words are found in the text one after another; a word that is not there is passed over, and its
    characters belong to the word before. A document without the field has the words of the
    tokenizer, and is counted.

    Example:
        {"text": "我们在北京", "words": ["我们", "在", "北京"]} has words at the characters 0, 2 and 3.
    """

    VERSION: ClassVar[int] = 1
    languages: ClassVar[tuple[str, ...]] = ()

    @config_class
    class Options:
        """Where the words are."""

        key: str = "words"
        """field of the documents with their words, a list of texts"""

    options: Options

    def split(self, piece: str) -> Iterable[str]:
        """Return nothing: a text alone has no words."""
        return ()

    def starts(self, text: str, fields: Mapping[str, Any]) -> list[int]:
        words = fields.get(self.options.key)
        if not isinstance(words, list):
            return []
        starts = []
        position = 0
        for word in words:
            visible = normalize(word) if isinstance(word, str) else ""
            limit = position + _MOST_SKIPPED + len(visible)
            found = text.find(visible, position, limit) if visible else -1
            if found >= 0:
                starts.append(found)
                position = found + len(visible)
        return starts
