"""Thai words by PyThaiNLP: the longest words of a dictionary that cover a text (newmm)."""

from collections.abc import Iterable
from typing import ClassVar

from clozeline.configuration.config import NoOptions
from clozeline.pipeline.text.words import Segmenter, missing_package_error


class Pythainlp(Segmenter):
    """Splits Thai text by maximal matching, never inside a cluster of consonant, vowels and tones.

    The variant with bounded time for ambiguous texts is used. The package is `pythainlp`.

    Example:
        ผมรักภาษาไทย has the words ผม, รัก, ภาษาไทย.
    """

    VERSION: ClassVar[int] = 1
    languages: ClassVar[tuple[str, ...]] = ("th",)

    def __init__(self, options: NoOptions) -> None:
        super().__init__(options)
        try:
            import pythainlp.tokenize  # noqa: F401
        except ImportError as error:
            raise missing_package_error("pythainlp", error) from error

    def split(self, piece: str) -> Iterable[str]:
        from pythainlp.tokenize import word_tokenize

        words: Iterable[str] = word_tokenize(piece, engine="newmm-safe")
        return words
