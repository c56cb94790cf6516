"""Japanese words by fugashi: MeCab with the dictionary of the package unidic-lite."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from clozeline.pipeline.text.words import Segmenter


class Fugashi(Segmenter):
    """Splits Japanese text into UniDic's short units: verb endings and particles are words.

    The packages are `fugashi` and `unidic-lite`.

    Example:
        吾輩は猫である has the words 吾輩, は, 猫, で, ある.
    """

    VERSION = 1
    languages = ("ja",)
    packages = ("fugashi", "unidic_lite")

    def split(self, piece: str) -> Iterable[str]:
        # MeCab ends a text at a zero byte
        return (word.surface for part in piece.split("\0") for word in _tagger()(part))


@cache
def _tagger() -> Any:
    import fugashi
    import unidic_lite

    folder = unidic_lite.DICDIR
    return fugashi.GenericTagger(f'-r "{folder}/mecabrc" -d "{folder}"')
