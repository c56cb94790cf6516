"""Language identifiers: which language a text is in, and how sure that is."""

from clozeline.pipeline.clean.languages._identifier import UNDECIDED, LanguageIdentifier, LanguageOptions

__all__ = ["UNDECIDED", "LanguageIdentifier", "LanguageOptions"]
