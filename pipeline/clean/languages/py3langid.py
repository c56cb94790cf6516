"""Identify languages with py3langid: naive Bayes over byte n-grams (Lui and Baldwin, 2012)."""

import re
from collections import Counter
from functools import cache
from typing import Any, Final

import numpy as np
from py3langid.langid import MODEL_FILE
from py3langid.langid import LanguageIdentifier as Model

from clozeline.native.library import is_available
from clozeline.native.ngrams import NgramTable
from clozeline.pipeline.clean.languages import (
    UNDECIDED,
    LanguageIdentifier,
    LanguageOptions,
    count_letters,
)

_SYLLABLES: Final = "\u0900"
"""First of the scripts with a letter for a syllable or a word, or with marks for vowels."""


_KANA: Final = "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_LATIN: Final = "ace az bs crh jv kk ku ms sr tk tt uz"
"""Languages in Latin letters and another script; one that is in no row has Latin letters alone."""
_SCRIPTS: Final = {
    _LATIN: (
        "A-Za-z\xaa\xba\xc0-\xd6\xd8-\xf6\xf8-\u02ff\u1d00-\u1dbf\u1e00-\u1eff\u2c60-\u2c7f"
        "\ua722-\ua7ff\uab30-\uab6f\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a"
    ),
    "az ba be bg bs crh kk ky mk mn ru sr tg tk tt uk uz": (
        "\u0400-\u052f\u1c80-\u1c88\u2de0-\u2dff\ua640-\ua69f"
    ),
    "ace ar ary arz az fa kk ku ms pa ps sdh ug ur uz uzs": (
        "\u0600-\u06ff\u0750-\u077f\u0870-\u08ff\ufb50-\ufdff\ufe70-\ufefc"
    ),
    "el": "\u0370-\u03ff\u1f00-\u1fff",
    "he": "\u0590-\u05ff\ufb1d-\ufb4f",
    "hy": "\u0530-\u058f\ufb13-\ufb17",
    "ka": "\u10a0-\u10ff\u1c90-\u1cbf\u2d00-\u2d2f",
    "gom hi mr ne sa": "\u0900-\u097f\ua8e0-\ua8ff",
    "as bn": "\u0980-\u09ff",
    "pa": "\u0a00-\u0a7f",
    "gu": "\u0a80-\u0aff",
    "or": "\u0b00-\u0b7f",
    "ta": "\u0b80-\u0bff",
    "te": "\u0c00-\u0c7f",
    "kn": "\u0c80-\u0cff",
    "ml": "\u0d00-\u0d7f",
    "si": "\u0d80-\u0dff",
    "th": "\u0e00-\u0e7f",
    "lo": "\u0e80-\u0eff",
    "dz": "\u0f00-\u0fff",
    "my": "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f",
    "am": "\u1200-\u139f\u2d80-\u2ddf\uab01-\uab2e",
    "km": "\u1780-\u17ff",
    "jv": "\ua980-\ua9df",
    "ko": "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff\uffa0-\uffdc",
    "ja": _KANA,
    "ja wuu yue zh": (
        f"{_KANA}\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
    ),
}
"""Bodies of character classes, by the codes of the languages in the model, which is not asked if
there is one."""
_IN_ROWS: Final = frozenset(" ".join(_SCRIPTS).split())
_LETTERS: Final = {languages: re.compile(f"[{script}]") for languages, script in _SCRIPTS.items()}
_OTHER_WORDS: Final = {
    languages: re.compile(rf"(?:[^\W_{script}][\W_]*)+") for languages, script in _SCRIPTS.items()
}
"""Letters of other scripts, with the marks and blanks behind them."""
_CODE: Final = re.compile(r"(?<![!-~])[!-~]*[/\\_=@$<>{}|][!-~]*")
"""Paths, tags and names of programs, whose letters say nothing about the script of the prose."""
_NO_LANGUAGE: Final = "zxx"
"""The model's answer for texts without a language, such as code."""


class Py3langid(LanguageIdentifier):
    """Identifies a language by the script of most letters, and among its languages by the model.

    The model reads the letters of this script alone. The score is the probability among all
    languages of the model, so that a text in an unwanted language is not forced into a wanted one.
    Letters of paths and code do not count for the script. A text is undecided if no script has
    half of it, or if the answer is not written in its script. A long text is judged by eight
    pieces from its start to its end, without URLs and digits.

        "Ceci n'est pas une pipe, disait le peintre." -> ("fr", 0.99…)
    """

    VERSION = 5

    Options = LanguageOptions

    def __init__(self, options: LanguageOptions) -> None:
        """Accept options that only `LanguageStep` uses."""

    def languages(self) -> frozenset[str]:
        return frozenset(_model(is_native=is_available()).labels)

    def rank(self, text: str, letters: Counter[str]) -> tuple[str, float, float]:
        languages = _find_script(letters)
        if languages == _LATIN and 10 * letters["a"] < 9 * letters.total():
            languages = _find_script(count_letters(_CODE.sub(" ", text)))
        if languages is None:
            return UNDECIDED, 0.0, 0.0
        if " " not in languages:
            return languages, 1.0, 0.0

        if (others := _OTHER_WORDS[languages]).search("".join(letters)):
            text = others.sub(" ", text)
        best, score, second = _find_best_two(_model(is_native=is_available()), text)
        is_latin = languages == _LATIN and best not in _IN_ROWS
        is_in_script = is_latin or best in (_NO_LANGUAGE, *languages.split())
        return (best if is_in_script else UNDECIDED), score, second


def _find_script(letters: Counter[str]) -> str | None:
    """Return the languages of the script with half of the letters; three weigh as two syllables."""
    weights = {each: count * (3 if each >= _SYLLABLES else 2) for each, count in letters.items()}
    least = sum(weights.values()) / 2
    found = "".join(weights)
    for languages, pattern in _LETTERS.items():
        if sum(map(weights.__getitem__, pattern.findall(found))) >= least:
            return languages
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
