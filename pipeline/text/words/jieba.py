"""Chinese words by jieba: the most probable path through a dictionary, and a hidden Markov model of unknown words."""

from collections.abc import Iterable
from functools import cache
from typing import Any, ClassVar

from clozeline.configuration.config import NoOptions
from clozeline.pipeline.text.words import Segmenter, missing_package_error


class Jieba(Segmenter):
    """Splits Chinese text, simplified better than traditional, as whole-word masking for Chinese needs it.

    arXiv 1906.08101 takes another segmenter (LTP), with a model of its own. The package is `jieba`.

    Example:
        我们在北京大学学习 has the words 我们, 在, 北京大学, 学习.
    """

    VERSION: ClassVar[int] = 1
    languages: ClassVar[tuple[str, ...]] = ("zh", "yue", "wuu")

    def __init__(self, options: NoOptions) -> None:
        super().__init__(options)
        try:
            import jieba  # noqa: F401 (the dictionary, which takes a second, is read with the first text)
        except ImportError as error:
            raise missing_package_error("jieba", error) from error

    def split(self, piece: str) -> Iterable[str]:
        words: Iterable[str] = _tokenizer().cut(piece)
        return words


@cache
def _tokenizer() -> Any:
    import jieba

    # from the dictionary itself: jieba would trust a cache in the folder for temporary files, where
    # anybody writes
    tokenizer = jieba.Tokenizer()
    with tokenizer.get_dict_file() as file:
        tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(file)
    tokenizer.initialized = True
    return tokenizer
