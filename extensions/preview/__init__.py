"""Show what an objective does to a text of yours, and what each position of the example reads."""

from clozeline.extensions.preview.corrupted_text import CorruptedText, corrupt_text

__all__ = ["CorruptedText", "corrupt_text"]
