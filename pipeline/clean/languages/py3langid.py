"""Language identification by py3langid: naive Bayes over byte n-grams (Lui and Baldwin, ACL 2012, P12-3005)."""

import re
from functools import cache
from typing import Annotated, Any, ClassVar, Final

from py3langid.langid import MODEL_FILE
from py3langid.langid import LanguageIdentifier as Model
from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.clean.languages import UNDECIDED, LanguageOptions

_NOISE: Final = re.compile(r"(?:https?://|www\.)\S+|\d+")
_NO_LETTER: Final = re.compile(r"[\W\d_]+")
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


class Py3langid:
    """Identifies by script if that is decisive, else by the model that comes with the package.

    The score is the probability among all languages of the model, so that a text in an unwanted language is not forced
    into a wanted one. URLs and digits are removed first.

        "Ceci n'est pas une pipe, disait le peintre." -> ("fr", 0.99…)
    """

    VERSION: ClassVar[int] = 1

    @config_class
    class Options(LanguageOptions):
        letters: Annotated[int, Field(ge=1)] = 20
        """texts with fewer letters are undecided; ≥ 1"""
        margin: Annotated[float, Field(ge=0, lt=1)] = 0.1
        """minimum distance of the best score from the second, 0 to 1"""

    def __init__(self, options: Options) -> None:
        self._options = options

    def languages(self) -> frozenset[str]:
        return frozenset(map(str, _model().labels))

    def identify(self, text: str) -> tuple[str, float]:
        text = _NOISE.sub(" ", text[: self._options.chars])
        letters = _NO_LETTER.sub("", text)
        if len(letters) < self._options.letters:
            return UNDECIDED, 0.0
        if not letters.isascii():
            for language, script in _SCRIPTS.items():
                share = len(script.findall(letters)) / len(letters)
                if share > _SCRIPT_SHARE:
                    return language, share
        (best, score), (_, second) = _model().rank(text)[:2]
        if score - second < self._options.margin:
            return UNDECIDED, float(score)
        return str(best), float(score)


@cache
def _model() -> Any:
    return Model.from_model_file(MODEL_FILE, norm_probs=True)
