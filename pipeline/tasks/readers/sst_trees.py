"""Reader of the trees of the Stanford Sentiment Treebank (Socher et al. 2013): SST-5, and SST-2 of entire sentences."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import LabeledText, Layout, Rejected, TaskFacts, TaskFile, TaskReader
from clozeline.pipeline.tasks.readers._text_lines import text_lines

_LABELS: Final = ("very negative", "negative", "neutral", "positive", "very positive")
_TREE: Final = re.compile(r"\(([0-4]) ")
_LEAF: Final = re.compile(r"\([0-4] ([^() ]+)\)")
_NEUTRAL: Final = 2
_ESCAPED: Final = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


class SstTrees(TaskReader):
    """The official files of `trees`: a sentence per line, as a tree with a class from 0 to 4 at each phrase.

    A row is a sentence with the class of its root. With `binary`, classes 0 and 1 are negative, 3 and 4 positive, and
    neutral sentences are rejected, as published: 6,920 training rows.

    Rejected: `fields`, a line that is no tree; `filtered`, a neutral sentence with `binary`; `blank_line`.

    Example:
        `(3 (2 It) (4 (4 (2 's) (4 great)) (2 .)))`
    """

    @config_class
    class Options:
        binary: bool = False
        """SST-2: negative or positive; false: SST-5"""

    options: Options
    _SUBSETS: ClassVar = {False: ("sst5", _LABELS), True: ("sst2", ("negative", "positive"))}

    @property
    def facts(self) -> TaskFacts:
        name, labels = self._SUBSETS[self.options.binary]
        return TaskFacts(name=name, head="classification", labels=labels, metrics=("accuracy",))

    def open(self, path: Path) -> TaskFile:
        _, line = next(text_lines(path, self.limits), (0, "an empty file"))
        if isinstance(line, Rejected) or sentence_of(line) is None:
            found = line.reason if isinstance(line, Rejected) else repr(line[:60])
            raise ConfigurationError(f"{path}: line 1: expected a tree such as (3 (2 It) (4 works)), got {found}")
        return TaskFile(path, Layout("official trees"))

    def read(self, file: TaskFile) -> Iterator[LabeledText | Rejected]:
        for index, line in text_lines(file.path, self.limits):
            if isinstance(line, Rejected):
                yield line
            elif not line.strip():
                yield Rejected("blank_line", index)
            elif (found := sentence_of(line)) is None:
                yield Rejected("fields", index, f"it is no tree: {line[:60]!r}", (line,))
            elif self.options.binary and found[0] == _NEUTRAL:
                yield Rejected("filtered", index, texts=(found[1],))
            else:
                label, text = found
                yield LabeledText((text,), int(label > _NEUTRAL) if self.options.binary else label, None, index)


def sentence_of(line: str) -> tuple[int, str] | None:
    r"""Return the class and the text of a tree, its words joined by spaces; None for a line that is no tree.

    Example:
        >>> sentence_of("(3 (2 -LRB-) (4 (3 and\\/or) (2 great)))"), sentence_of("3 great")
        ((3, '( and/or great'), None)
    """
    line = line.strip()
    root = _TREE.match(line)
    # what is left of a tree without leaves and nodes: nothing
    rest = line
    while (shorter := re.sub(r"\([0-4] (?:[^() ]+|\*+(?: \*+)*)\)", "*", rest)) != rest:
        rest = shorter
    if root is None or rest != "*":
        return None
    words = [_ESCAPED.get(word, word).replace("\\/", "/").replace("\\*", "*") for word in _LEAF.findall(line)]
    return int(root[1]), " ".join(words)
