"""Thai words by PyThaiNLP: the longest words of a dictionary that cover a text (newmm)."""

from collections.abc import Iterable

from clozeline.pipeline.text.words import Segmenter


class Pythainlp(Segmenter):
    """Splits Thai text by maximal matching, never inside a cluster of consonant, vowels and tones.

    The variant with bounded time for ambiguous texts is used. The package is `pythainlp`.

    Example:
        ผมรักภาษาไทย has the words ผม, รัก, ภาษาไทย.
    """

    VERSION = 1
    languages = ("th",)
    packages = ("pythainlp",)

    def split(self, piece: str) -> Iterable[str]:
        from pythainlp.tokenize import word_tokenize

        words: Iterable[str] = word_tokenize(piece, engine="newmm-safe")
        return words
