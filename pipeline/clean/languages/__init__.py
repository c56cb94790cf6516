"""Language identifiers: return the language of a text and a confidence score."""

from clozeline.pipeline.clean.languages._identifier import (
    LANGUAGE_REASONS,
    LANGUAGES,
    UNDECIDED,
    LanguageIdentifier,
    LanguageOptions,
    LanguageRule,
    remove_noise,
)

__all__ = [
    "LANGUAGES", "LANGUAGE_REASONS", "UNDECIDED", "LanguageIdentifier", "LanguageOptions", "LanguageRule",
    "remove_noise",
]  # fmt: skip
