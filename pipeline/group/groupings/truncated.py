"""Truncated: one row for each document, its first tokens; the rest of the text is dropped."""

from typing import ClassVar

from clozeline.arrays import Int64
from clozeline.pipeline.group.groupings.document import DocumentGrouping


class TruncatedGrouping(DocumentGrouping):
    """The first `length` tokens of each document, as truncation in a tokenizer leaves them.

    What follows is dropped, and counted as `cut`.

    Example (length 4, document a b c d e f g h i j):
        a b c d
    """

    drops_rest: ClassVar[bool] = True

    def cut(self, begin: Int64, limit: Int64, sentences: Int64) -> Int64:
        return limit
