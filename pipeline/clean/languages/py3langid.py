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

_SCRIPT_SHARE: Final = 0.8


class _Script(NamedTuple):
    """A script in the training data of the model."""

    characters: str
    """body of a character class"""
    languages: str
    """codes of the model's languages that are written in it"""
    names: str = ""
    """the only language of this script; empty: the model decides"""


_LATIN: Final = (
    "A-Za-z\xaa\xba\xc0-\xd6\xd8-\xf6\xf8-\u02ff\u1d00-\u1dbf\u1e00-\u1eff\u2c60-\u2c7f"
    "\ua722-\ua7ff\uab30-\uab6f\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a"
)
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
    _Script("\u0370-\u03ff\u1f00-\u1fff", "el grc", "el"),
    _Script("\u0590-\u05ff\ufb1d-\ufb4f", "he hbo", "he"),
    _Script("\u0530-\u058f\ufb13-\ufb17", "hy", "hy"),
    _Script("\u10a0-\u10ff\u1c90-\u1cbf\u2d00-\u2d2f", "ka", "ka"),
    _Script("\u0900-\u097f\ua8e0-\ua8ff", "gom hi mr ne sa"),
    _Script("\u0980-\u09ff", "as bn"),
    _Script("\u0a00-\u0a7f", "pa", "pa"),
    _Script("\u0a80-\u0aff", "gu", "gu"),
    _Script("\u0b00-\u0b7f", "or", "or"),
    _Script("\u0b80-\u0bff", "ta", "ta"),
    _Script("\u0c00-\u0c7f", "te", "te"),
    _Script("\u0c80-\u0cff", "kn", "kn"),
    _Script("\u0d00-\u0d7f", "ml", "ml"),
    _Script("\u0d80-\u0dff", "si", "si"),
    _Script("\u0e00-\u0e7f", "th", "th"),
    _Script("\u0e80-\u0eff", "lo", "lo"),
    _Script("\u0f00-\u0fff", "dz"),
    _Script("\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f", "my"),
    _Script("\u1200-\u139f\u2d80-\u2ddf\uab01-\uab2e", "am"),
    _Script("\u1780-\u17ff", "km", "km"),
    _Script("\ua980-\ua9df", "jv", "jv"),
    _Script("\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff\uffa0-\uffdc", "ko", "ko"),
    _Script("\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f", "ja", "ja"),
    _Script(
        "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af", "ja wuu yue zh"
    ),
)
_NAMING_SCRIPTS: Final = {
    script.names: re.compile(f"[{script.characters}]") for script in _SCRIPTS if script.names
}
"""Scripts of a single language, by its code."""
_LATIN_LETTER: Final = re.compile(f"[{_LATIN}]")
_ANY_SCRIPT: Final = re.compile(f"[{''.join(script.characters for script in _SCRIPTS)}]")


@cache
def _letter_pattern(language: str) -> re.Pattern[str]:
    """Return the pattern of the letters of a language of the model."""
    if language == _NO_LANGUAGE:
        return _ANY_SCRIPT
    scripts = [script.characters for script in _SCRIPTS if language in script.languages.split()]
    return re.compile(f"[{''.join(scripts) or _LATIN}]")


_NO_LANGUAGE: Final = "zxx"
"""The model's answer for texts without a language, such as code."""


class Py3langid(LanguageIdentifier):
    """Identifies a language by its script if that is decisive, else by the model of the package.

    The score is the probability among all languages of the model, so that a text in an unwanted
    language is not forced into a wanted one. A text is undecided if its script is not one of its
    language, or was not in the training data. A long text is judged by eight pieces from its start
    to its end, without URLs and digits.

        "Ceci n'est pas une pipe, disait le peintre." -> ("fr", 0.99…)
    """

    VERSION: ClassVar[int] = 3

    Options = LanguageOptions

    def __init__(self, options: LanguageOptions) -> None:
        """Accept options that only `LanguageRule` uses."""

    def languages(self) -> frozenset[str]:
        return frozenset(_model(is_native=is_available()).labels)

    def identify(self, text: str) -> tuple[str, float]:
        letters = count_letters(text := remove_noise(sample_text(text)))
        if not has_enough_letters(letters):
            return UNDECIDED, 0.0
        total = letters.total()
        least = _SCRIPT_SHARE * total
        is_latin = _count_matches(_LATIN_LETTER, letters) >= least
        for language, script in () if is_latin else _NAMING_SCRIPTS.items():
            if (count := _count_matches(script, letters)) > least:
                return language, count / total

        best, score, second = _find_best_two(_model(is_native=is_available()), text)
        # the model guesses a language even for a script that it has never seen
        has_other_script = _count_matches(_letter_pattern(best), letters) < least
        if has_other_script or score - second < LEAST_MARGIN:
            return UNDECIDED, score
        return best, score


def _count_matches(pattern: re.Pattern[str], letters: Counter[str]) -> int:
    """Return how many of the counted letters match the pattern of a letter."""
    return sum(letters[letter] for letter in pattern.findall("".join(letters)))


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
