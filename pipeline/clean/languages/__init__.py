"""Language identifiers: return the language of a text and a confidence score."""

from clozeline.pipeline.clean.languages._identifier import (
    LANGUAGE_REASONS,
    LANGUAGES,
    NOISE,
    UNDECIDED,
    LanguageIdentifier,
    LanguageOptions,
    LanguageRule,
)

__all__ = [
    "LANGUAGES", "LANGUAGE_REASONS", "NOISE", "UNDECIDED", "LanguageIdentifier", "LanguageOptions", "LanguageRule",
]  # fmt: skip
