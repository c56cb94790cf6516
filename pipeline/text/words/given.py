"""Words that come with the documents, from a third-party segmenter or a treebank."""

from collections.abc import Iterable, Mapping
from typing import Any

from clozeline.configuration.config import config_class
from clozeline.pipeline.text.normal_form import normalize
from clozeline.pipeline.text.words import Segmenter, find_starts


class Given(Segmenter):
    """Reads the words of a document from one of its fields, a list of texts in order.

    Words are searched in the text one after another. A word that is not there is skipped, and its
    characters belong to the previous word. A document without the field has the words of the
    tokenizer, and is counted.

    Example:
        {"text": "我们在北京", "words": ["我们", "在", "北京"]} has words at 0, 2 and 3.
    """

    VERSION = 1
    languages = ()

    @config_class
    class Options:
        """The field with the words."""

        key: str = "words"
        """field of the documents with their words, a list of strings"""

    options: Options

    def split(self, piece: str) -> Iterable[str]:
        """Return nothing, because a text alone has no words."""
        return ()

    def starts(self, text: str, fields: Mapping[str, Any]) -> list[int]:
        words = fields.get(self.options.key)
        if not isinstance(words, list):
            return []
        return [*find_starts(text, [normalize(word) for word in words if isinstance(word, str)])]
