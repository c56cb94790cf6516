"""Chinese words by jieba: a dictionary, and a hidden Markov model of unknown words."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from clozeline.pipeline.text.words import Segmenter


class Jieba(Segmenter):
    """Splits Chinese text, as whole-word masking for Chinese needs it.

    Simplified text is split better than traditional text. arXiv 1906.08101 uses another segmenter
    (LTP), which needs a model. The package is `jieba`.

    Example:
        我们在北京大学学习 has the words 我们, 在, 北京大学, 学习.
    """

    VERSION = 1
    languages = ("zh", "yue", "wuu")
    packages = ("jieba",)

    def split(self, piece: str) -> Iterable[str]:
        words: Iterable[str] = _tokenizer().cut(piece)
        return words


@cache
def _tokenizer() -> Any:
    import jieba

    # from the dictionary itself: jieba would trust a cache in the folder for temporary files, to
    # which anybody can write
    tokenizer = jieba.Tokenizer()
    with tokenizer.get_dict_file() as file:
        tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(file)
    tokenizer.initialized = True
    return tokenizer
