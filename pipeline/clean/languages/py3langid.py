"""Language identification by py3langid: naive Bayes over byte n-grams (Lui and Baldwin, ACL 2012, P12-3005)."""

import re
from functools import cache
from typing import Annotated, ClassVar, Final

from py3langid.langid import MODEL_FILE
from py3langid.langid import LanguageIdentifier as Model
from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.native.words import keep_letters
from clozeline.pipeline.clean.languages import UNDECIDED, LanguageOptions, remove_noise
from clozeline.pipeline.text.word_tokens import word_rules

_NO_LETTER: Final = re.compile(r"[\W\d_]+")
_NO_ASCII_LETTER: Final = str.maketrans("", "", "".join(chr(code) for code in range(128) if not chr(code).isalpha()))
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
        (best, score), (_, second), *_ = _model().rank(text)
        # the model guesses some language for a script that it has not seen
        expected = _OF_LANGUAGE.get(best)
        unlike = expected is not None and len(expected.findall(letters)) < _SCRIPT_SHARE * len(letters)
        if unlike or score - second < self._options.margin:
            return UNDECIDED, score
        return best, score


@cache
def _model() -> Model:
    """Read the package's model once per process: half a second."""
    return Model.from_model_file(MODEL_FILE, norm_probs=True)
