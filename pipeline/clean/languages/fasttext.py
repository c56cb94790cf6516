"""Identify languages with a model in fastText's format (Joulin et al. 2016, arXiv:1607.01759)."""

from collections import Counter
from dataclasses import field
from typing import Final

from clozeline.configuration.config import LocalPath, config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.clean.filters import DATA_FILE
from clozeline.pipeline.clean.languages import (
    LanguageIdentifier,
    LanguageOptions,
    Score,
)
from clozeline.pipeline.text.fasttext_model import FastTextModel

_LABEL: Final = "__label__"


class Fasttext(LanguageIdentifier):
    """Identifies languages with a file of lid.176, GlotLID, OpenLID, NLLB's model, or your own.

    A language is the label of the model without `__label__`, such as `deu_Latn`. Other options of a
    recipe may name it by any code: `de` finds it. The score is the probability among all labels. A
    long text is judged by eight pieces from its start to its end, without URLs and digits.

        "Ceci n'est pas une pipe, disait le peintre." -> ("fr", 0.99…) with lid.176
    """

    VERSION = 1

    @config_class
    class Options(LanguageOptions):
        """The model, and the names of its labels."""

        path: LocalPath = field(metadata=DATA_FILE)
        """file of the model, .bin or .ftz; if its content changes, documents are cleaned again"""
        long_threshold: Score = 0.65
        """minimum score from 300 characters on; between 100 and 300 it changes linearly. Scores of
        these models grow little with the length"""
        codes: dict[str, str] = field(default_factory=dict)
        """language codes instead of labels, without `__label__`, such as `{als: gsw}`: the label
        `als` of lid.176 is Alemannic, whose code is `gsw`"""

    def __init__(self, options: Options) -> None:
        self._model = FastTextModel(options.path, "clean.language")
        self._codes = {
            label: options.codes.get(name := label.removeprefix(_LABEL), name)
            for label in self._model.labels()
        }
        known = {label.removeprefix(_LABEL) for label in self._codes}
        if unknown := sorted(options.codes.keys() - known):
            raise ConfigurationError(
                f"clean.language.codes: {options.path} has no label {', '.join(unknown)}; it has "
                f"{len(known)}, such as {', '.join(sorted(known)[:8])}"
            )

    def languages(self) -> frozenset[str]:
        return frozenset(self._codes.values())

    def rank(self, text: str, letters: Counter[str]) -> tuple[str, float, float]:
        (label, score), *others = self._model.rank(text, 2)
        return self._codes[label], score, others[0][1] if others else 0.0
