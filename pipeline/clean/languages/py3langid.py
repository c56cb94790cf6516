"""Identify languages with py3langid: naive Bayes over byte n-grams (Lui and Baldwin, 2012)."""

import re
from collections import Counter
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from py3langid.langid import MODEL_FILE
from py3langid.langid import LanguageIdentifier as Model

from clozeline.native.library import is_available
from clozeline.native.ngrams import NgramTable
from clozeline.pipeline.clean.languages import (
    LEAST_MARGIN,
    UNDECIDED,
    LanguageIdentifier,
    LanguageOptions,
    count_letters,
    has_enough_letters,
    remove_noise,
    sample_text,
)

_SYLLABLES: Final = "\u0900"
"""First of the scripts with a letter for a syllable or a word, or with marks for vowels."""


class _Script(NamedTuple):
    """A script in the training data of the model."""

    characters: str
    """body of a character class"""
    languages: str
    """codes of its languages in the model, which is not asked if there is one"""


_LATIN: Final = (
    "A-Za-z\xaa\xba\xc0-\xd6\xd8-\xf6\xf8-\u02ff\u1d00-\u1dbf\u1e00-\u1eff\u2c60-\u2c7f"
    "\ua722-\ua7ff\uab30-\uab6f\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a"
)
_KANA: Final = "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_SCRIPTS: Final = (
    # a language that is in no row is written in this script alone
    _Script(_LATIN, "ace az bs crh jv kk ku ms sr tk tt uz"),
    _Script(
        "\u0400-\u052f\u1c80-\u1c88\u2de0-\u2dff\ua640-\ua69f",
        "az ba be bg bs crh kk ky mk mn ru sr tg tk tt uk uz",
    ),
    _Script(
        "\u0600-\u06ff\u0750-\u077f\u0870-\u08ff\ufb50-\ufdff\ufe70-\ufefc",
        "ace ar ary arz az fa kk ku ms pa ps sdh ug ur uz uzs",
    ),
    _Script("\u0370-\u03ff\u1f00-\u1fff", "el"),
    _Script("\u0590-\u05ff\ufb1d-\ufb4f", "he"),
    _Script("\u0530-\u058f\ufb13-\ufb17", "hy"),
    _Script("\u10a0-\u10ff\u1c90-\u1cbf\u2d00-\u2d2f", "ka"),
    _Script("\u0900-\u097f\ua8e0-\ua8ff", "gom hi mr ne sa"),
    _Script("\u0980-\u09ff", "as bn"),
    _Script("\u0a00-\u0a7f", "pa"),
    _Script("\u0a80-\u0aff", "gu"),
    _Script("\u0b00-\u0b7f", "or"),
    _Script("\u0b80-\u0bff", "ta"),
    _Script("\u0c00-\u0c7f", "te"),
    _Script("\u0c80-\u0cff", "kn"),
    _Script("\u0d00-\u0d7f", "ml"),
    _Script("\u0d80-\u0dff", "si"),
    _Script("\u0e00-\u0e7f", "th"),
    _Script("\u0e80-\u0eff", "lo"),
    _Script("\u0f00-\u0fff", "dz"),
    _Script("\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f", "my"),
    _Script("\u1200-\u139f\u2d80-\u2ddf\uab01-\uab2e", "am"),
    _Script("\u1780-\u17ff", "km"),
    _Script("\ua980-\ua9df", "jv"),
    _Script("\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff\uffa0-\uffdc", "ko"),
    _Script(_KANA, "ja"),
    _Script(
        f"{_KANA}\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af",
        "ja wuu yue zh",
    ),
)
_IN_ROWS: Final = frozenset(" ".join(script.languages for script in _SCRIPTS).split())
_LETTERS: Final = {script: re.compile(f"[{script.characters}]") for script in _SCRIPTS}
_OTHER_WORDS: Final = {
    script: re.compile(rf"(?:[^\W_{script.characters}][\W_]*)+") for script in _SCRIPTS
}
"""Letters of other scripts, with the marks and blanks behind them."""
_NO_LANGUAGE: Final = "zxx"
"""The model's answer for texts without a language, such as code."""


class Py3langid(LanguageIdentifier):
    """Identifies a language by the script of most letters, and among its languages by the model.

    The model reads the letters of this script alone. The score is the probability among all
    languages of the model, so that a text in an unwanted language is not forced into a wanted one.
    A text is undecided if no script has half of it, or if the answer is not written in its script.
    A long text is judged by eight pieces from its start to its end, without URLs and digits.

        "Ceci n'est pas une pipe, disait le peintre." -> ("fr", 0.99…)
    """

    VERSION: ClassVar[int] = 4

    Options = LanguageOptions

    def __init__(self, options: LanguageOptions) -> None:
        """Accept options that only `LanguageRule` uses."""

    def languages(self) -> frozenset[str]:
        return frozenset(_model(is_native=is_available()).labels)

    def identify(self, text: str) -> tuple[str, float]:
        letters = count_letters(text := remove_noise(sample_text(text)))
        script = _find_script(letters)
        if script is None or not has_enough_letters(letters):
            return UNDECIDED, 0.0
        if " " not in script.languages:
            return script.languages, 1.0

        if (others := _OTHER_WORDS[script]).search("".join(letters)):
            text = others.sub(" ", text)
        best, score, second = _find_best_two(_model(is_native=is_available()), text)
        is_latin = script.characters == _LATIN and best not in _IN_ROWS
        is_in_script = is_latin or best in (_NO_LANGUAGE, *script.languages.split())
        if not is_in_script or score - second < LEAST_MARGIN:
            return UNDECIDED, score
        return best, score


def _find_script(letters: Counter[str]) -> _Script | None:
    """Return the script with at least half of the letters; three weigh as two syllables."""
    weights = {each: count * (3 if each >= _SYLLABLES else 2) for each, count in letters.items()}
    least = sum(weights.values()) / 2
    found = "".join(weights)
    for script, pattern in _LETTERS.items():
        if sum(map(weights.__getitem__, pattern.findall(found))) >= least:
            return script
    return None


class _NativeModel(Model):  # type: ignore[misc]  # the package has no types
    """The model of the package with its loop over bytes compiled; scores have the same bits."""

    __slots__ = ("_ngrams",)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        moves = np.asarray(self.tk_nextmove, np.uint32)
        rows = np.asarray(self.tk_row, np.uint32)
        features = np.asarray(self.tk_output, np.int32)
        self._ngrams = NgramTable(moves, rows, features, self.nb_ptc)

    def _raw_score(self, text: bytes) -> Any:
        counts, scores = self._ngrams.find(text)
        if not len(counts):
            return super()._raw_score(text)
        return np.log1p(counts) @ scores + self.nb_pc


@cache
def _model(*, is_native: bool) -> Any:
    """Return the model of the package, which is read once per process: half a second."""
    kind = _NativeModel if is_native else Model
    return kind.from_model_file(MODEL_FILE, norm_probs=True)


def _find_best_two(model: Model, text: str) -> tuple[str, float, float]:
    """Return the best language, its probability, and the second highest probability."""
    probabilities = model._decide(text)
    best = int(probabilities.argmax())
    score = float(probabilities[best])
    probabilities[best] = -1.0
    return model.nb_classes[best], score, float(probabilities.max())
