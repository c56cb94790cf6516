"""Language identification by py3langid: naive Bayes over byte n-grams (Lui and Baldwin, ACL 2012, P12-3005)."""

import re
from collections import Counter
from functools import cache
from typing import Annotated, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from py3langid.langid import MODEL_DIR, MODEL_FILE
from py3langid.langid import LanguageIdentifier as Model
from pydantic import Field

from clozeline.arrays import Int64
from clozeline.configuration.config import config_class
from clozeline.native.language import count_features
from clozeline.native.words import keep_letters
from clozeline.pipeline.clean.languages import UNDECIDED, LanguageOptions, remove_noise
from clozeline.pipeline.clean.languages._model_arrays import ModelArrays, load_arrays
from clozeline.pipeline.text.word_tokens import word_rules

_NO_LETTER: Final = re.compile(r"[\W\d_]+")
_NO_ASCII_LETTER: Final = str.maketrans("", "", "".join(chr(code) for code in range(128) if not chr(code).isalpha()))
_LONGEST_FEATURE: Final = 6  # bytes of the longest n-gram that the model knows
_SCRIPT_SHARE: Final = 0.8
# scripts used by (almost) a single language
_SCRIPTS: Final = {
    "ko": re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]"),
    "ja": re.compile("[\u3040-\u30ff\uff66-\uff9f]"),
    "th": re.compile("[\u0e00-\u0e7f]"),
    "el": re.compile("[\u0370-\u03ff\u1f00-\u1fff]"),
    "he": re.compile("[\u0590-\u05ff]"),
    "hy": re.compile("[\u0530-\u058f]"),
    "ka": re.compile("[\u10a0-\u10ff\u1c90-\u1cbf]"),
}
_ANY_SCRIPT: Final = re.compile("|".join(script.pattern for script in _SCRIPTS.values()))
# scripts that several languages share; a text in another script is in none of them
_SHARED: Final = {
    **dict.fromkeys(("be", "bg", "kk", "ky", "mk", "mn", "ru", "uk"), re.compile("[\u0400-\u052f]")),
    **dict.fromkeys(
        ("ar", "fa", "ps", "ug", "ur"), re.compile("[\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff]")
    ),
    **dict.fromkeys(("hi", "mr", "ne"), re.compile("[\u0900-\u097f]")),
    **dict.fromkeys(("as", "bn"), re.compile("[\u0980-\u09ff]")),
    "zh": re.compile("[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003134f]"),
}
_OF_LANGUAGE: Final = {**_SHARED, **{language: script for language, script in _SCRIPTS.items() if language != "ja"}}
"""Scripts that a text of the language has in its majority; Japanese has Chinese characters too."""

# Those of the model, which takes half a second to read; a recipe is checked without it.
_LANGUAGES: Final = frozenset(
    """
    ace af am an ar ary arz as az ba bcl be bg bn br bs ca crh cs cy da de dz el en eo es et eu ext fa fi fo fr fuv fy
    ga gcf gcr gd gl gom grc gu gug guw ha hbo he hi hr ht hu hy id ig is it ja jv ka kab kik kk km kn ko ku ky la lb
    lg lij ln lo lt ltg lv mg mk ml mn mr ms mt my ne nl nn no nso oc om or pa pcm pl ps pt qu ro ru rw sa sdh se si
    sk sl sn so sq sr st sv sw ta te tg th tk tl tr tt ug uk ur uz uzs vec vi vo wa wuu xh yo yue zh zu zxx
    """.split()  # noqa: SIM905 (a list of 152 strings fills a screen)
)


class Py3langid:
    """Identifies by script if that is decisive, else by the model that comes with the package.

    The score is the probability among all languages of the model, so that a text in an unwanted language is not forced
    into a wanted one. A text in another script than its language has is undecided. URLs and digits are removed first.

        "Ceci n'est pas une pipe, disait le peintre." -> ("fr", 0.99…)
    """

    VERSION: ClassVar[int] = 2

    @config_class
    class Options(LanguageOptions):
        letters: Annotated[int, Field(ge=1)] = 20
        """texts with fewer letters are undecided; ≥ 1"""
        margin: Annotated[float, Field(ge=0, lt=1)] = 0.1
        """minimum distance of the best score from the second, 0 to 1"""

    def __init__(self, options: Options) -> None:
        self._options = options

    def languages(self) -> frozenset[str]:
        return _LANGUAGES

    def identify(self, text: str) -> tuple[str, float]:
        text = remove_noise(text[: self._options.chars])
        letters = keep_letters(text, word_rules)
        if letters is None:
            # without blanks first, which are most of what the pattern would find one by one
            letters = text.translate(_NO_ASCII_LETTER) if text.isascii() else _NO_LETTER.sub("", "".join(text.split()))
        if len(letters) < self._options.letters:
            return UNDECIDED, 0.0
        if not letters.isascii() and _ANY_SCRIPT.search(letters):
            for language, script in _SCRIPTS.items():
                share = len(script.findall(letters)) / len(letters)
                if share > _SCRIPT_SHARE:
                    return language, share
        (best, score), second = _model().best_two(text)
        # the model guesses some language for a script that it has not seen
        expected = _OF_LANGUAGE.get(best)
        unlike = expected is not None and len(expected.findall(letters)) < _SCRIPT_SHARE * len(letters)
        if unlike or score - second < self._options.margin:
            return UNDECIDED, score
        return best, score


class _ArrayModel(Model):  # type: ignore[misc]
    """The package's model on shared arrays, which finds n-grams without a Python loop; the scores are the same bits.

    The numpy form finds those of all positions at once: the state of the automaton is the longest n-gram that ends at a
    position, so it depends on the last few bytes only, and `_LONGEST_FEATURE` steps from the start state reach it.
    """

    __slots__ = ("_arrays", "_labels", "_rows")

    def __init__(self, arrays: ModelArrays) -> None:
        classes = arrays.classes.tolist()
        super().__init__(arrays.weights, arrays.prior, classes, None, None, norm_probs=True, tk_row=())
        self._arrays = arrays
        self._rows = np.empty((0, len(classes)), arrays.weights.dtype)  # memory for the weights of a text's n-grams
        self._labels = {label: classes.index(label) for label in classes}

    def count_features(self, text: bytes) -> tuple[Int64, NDArray[np.float32]]:
        """Return the n-grams of the model in a text, in order of first occurrence, and how often each occurs."""
        _, _, _, following, rows, outputs = self._arrays
        if (native := count_features(text, following, rows, outputs, _LONGEST_FEATURE)) is not None:
            return native
        codes = np.frombuffer(text, dtype=np.uint8)
        states = np.zeros(len(codes), dtype=np.int64)
        for late in range(min(_LONGEST_FEATURE, len(codes)) - 1, -1, -1):
            states[late:] = following[rows[states[late:]] + codes[: len(codes) - late]]
        features = outputs[states]
        found = Counter(features[features >= 0].tolist())
        return np.fromiter(found.keys(), np.int64, len(found)), np.fromiter(found.values(), np.float32, len(found))

    def best_two(self, text: str) -> tuple[tuple[str, float], float]:
        """Return the most likely language with its probability, and the probability of the next; ties: as listed."""
        scores = self._decide(text)[[*self._labels.values()]]
        best = int(scores.argmax())
        language, score = [*self._labels][best], float(scores[best])
        scores[best] = -1.0
        return (language, score), float(scores.max())

    def _raw_score(self, text: bytes) -> Any:
        # as the package computes it; a text without any n-gram is equally likely in all languages
        found, counts = self.count_features(text)
        if not len(found):
            return np.zeros(len(self.nb_pc), np.float32)
        if len(self._rows) < len(found):
            self._rows = np.empty((len(found), len(self.nb_pc)), self.nb_ptc.dtype)
        # "clip", because numpy copies through a buffer of its own where it may have to raise an error
        rows = np.take(self.nb_ptc, found, axis=0, out=self._rows[: len(found)], mode="clip")
        return np.log1p(counts) @ rows + self.nb_pc


@cache
def _model() -> _ArrayModel:
    return _ArrayModel(load_arrays(MODEL_DIR / MODEL_FILE))
