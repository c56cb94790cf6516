"""Language identifiers: return the language of a text and a confidence score."""

from clozeline.pipeline.clean.languages._identifier import NOISE, UNDECIDED, LanguageIdentifier, LanguageOptions

__all__ = ["NOISE", "UNDECIDED", "LanguageIdentifier", "LanguageOptions"]
