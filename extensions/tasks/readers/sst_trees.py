"""Read the trees of the Stanford Sentiment Treebank (Socher et al. 2013): SST-5 and SST-2."""

import re
from functools import cached_property
from pathlib import Path
from typing import Final

from clozeline.configuration.config import config_class
from clozeline.extensions.tasks.readers import RowFile
from clozeline.extensions.tasks.readers._labels import number_classes
from clozeline.extensions.tasks.readers._official_files import open_lines
from clozeline.extensions.tasks.readers._official_layout import OfficialLayout
from clozeline.extensions.tasks.readers.labeled import LabeledReader

_CLASS_NAMES: Final = ("very negative", "negative", "neutral", "positive", "very positive")
_TREE: Final = re.compile(r"\(([0-4]) ")
_LEAF: Final = re.compile(r"\([0-4] ([^() ]+)\)")
_ESCAPED_BRACKETS: Final = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
}


class SstTreesReader(OfficialLayout):
    """The official `trees` files: a sentence per line, as a tree with a class (0 to 4) per phrase.

    A row is a sentence with the class of its root. With `binary`, classes 0 and 1 are negative, 3
    and 4 positive, and neutral sentences are rejected, as published: 6,920 training rows.

    Reasons for rejection: `fields`, a line that is not a tree; `filtered`, a neutral sentence with
    `binary`; `blank_line`.

    Example:
        `(3 (2 It) (4 (4 (2 's) (4 great)) (2 .)))`
    """

    metrics = ("accuracy",)

    @config_class
    class Options:
        binary: bool = False
        """SST-2: negative or positive; false: SST-5"""

    options: Options

    @cached_property
    def spec(self) -> LabeledReader.Options:
        if not self.options.binary:
            return LabeledReader.Options(
                task="sst5", label="label", classes=number_classes(_CLASS_NAMES, by_name=False)
            )
        classes = {"0": "negative", "1": "negative", "3": "positive", "4": "positive"}
        return LabeledReader.Options(
            task="sst2", label="label", classes=classes, keep={"label": [*classes]}
        )

    def open(self, path: Path) -> RowFile:
        expected = "a tree such as (3 (2 It) (4 works))"
        return open_lines(path, self.limits, "official trees", expected, sentence_of)


def sentence_of(line: str) -> dict[str, str] | None:
    r"""Return class (`label`) and text of a tree; None if the line is not a tree.

    Example:
        >>> sentence_of("(3 (2 -LRB-) (4 (3 and\\/or) (2 great)))"), sentence_of("3 great")
        ({'label': '3', 'text': '( and/or great'}, None)
    """
    line = line.strip()
    root = _TREE.match(line)
    # replace leaves and complete nodes until only `*` remains of a tree
    reduced = line
    while (shorter := re.sub(r"\([0-4] (?:[^() ]+|\*+(?: \*+)*)\)", "*", reduced)) != reduced:
        reduced = shorter
    if root is None or reduced != "*":
        return None

    words = [
        _ESCAPED_BRACKETS.get(word, word).replace("\\/", "/").replace("\\*", "*")
        for word in _LEAF.findall(line)
    ]
    return {"label": root[1], "text": " ".join(words)}
