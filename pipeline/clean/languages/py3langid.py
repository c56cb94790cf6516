"""Language identification by py3langid: naive Bayes over byte n-grams (Lui and Baldwin, ACL 2012, P12-3005)."""

import re
from functools import cache
from typing import ClassVar, Final

from py3langid.langid import MODEL_FILE
from py3langid.langid import LanguageIdentifier as Model

from clozeline.pipeline.clean.languages import UNDECIDED, LanguageOptions, remove_noise

_NO_LETTER: Final = re.compile(r"[\W\d_]+")
_SCRIPT_SHARE: Final = 0.8
_CHARACTERS: Final = 2000  # of the beginning of a text
_LETTERS: Final = 20  # texts with fewer are undecided
_MARGIN: Final = 0.1  # minimum distance of the best score from the second
# scripts, and the languages of the model that have them: a script of (almost) one language names it
_LANGUAGES_OF_SCRIPT: Final = {
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3": "ko", "\u0e00-\u0e7f": "th", "\u0370-\u03ff\u1f00-\u1fff": "el",
    "\u0590-\u05ff": "he", "\u0530-\u058f": "hy", "\u10a0-\u10ff\u1c90-\u1cbf": "ka",
    "\u3040-\u30ff\uff66-\uff9f": "ja",
    "\u0400-\u052f": "be bg kk ky mk mn ru uk", "\u0900-\u097f": "hi mr ne", "\u0980-\u09ff": "as bn",
    "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff": "ar fa ps ug ur",
    "\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003134f": "zh wuu yue",
}  # fmt: skip
_SCRIPTS: Final = {
    language: re.compile(f"[{characters}]")
    for characters, languages in _LANGUAGES_OF_SCRIPT.items() for language in languages.split()
}  # fmt: skip
_DECISIVE: Final = [language for language in _LANGUAGES_OF_SCRIPT.values() if " " not in language]


class Py3langid:
    """Identifies by script if that is decisive, else by the model that comes with the package.

    The score is the probability among all languages of the model, so that a text in an unwanted language is not forced
    into a wanted one. A text in another script than its language has is undecided. URLs and digits are removed first.

        "Ceci n'est pas une pipe, disait le peintre." -> ("fr", 0.99…)
    """

    VERSION: ClassVar[int] = 2

    Options = LanguageOptions

    def __init__(self, options: LanguageOptions) -> None:
        """Take options that only `LanguageRule` uses."""

    def languages(self) -> frozenset[str]:
        return frozenset(_model().labels)

    def identify(self, text: str) -> tuple[str, float]:
        text = remove_noise(text[:_CHARACTERS])
        letters = _NO_LETTER.sub("", text)
        if len(letters) < _LETTERS:
            return UNDECIDED, 0.0
        for language in () if letters.isascii() else _DECISIVE:
            share = len(_SCRIPTS[language].findall(letters)) / len(letters)
            if share > _SCRIPT_SHARE:
                return language, share
        (best, score), (_, second), *_ = _model().rank(text)
        # the model guesses some language for a script that it has not seen; Japanese has Chinese characters, too
        script = None if best == "ja" else _SCRIPTS.get(best)
        unlike = script is not None and len(script.findall(letters)) < _SCRIPT_SHARE * len(letters)
        if unlike or score - second < _MARGIN:
            return UNDECIDED, score
        return best, score


@cache
def _model() -> Model:
    """Read the package's model once per process: half a second."""
    return Model.from_model_file(MODEL_FILE, norm_probs=True)
