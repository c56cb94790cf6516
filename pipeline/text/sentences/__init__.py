"""Sentence splitters, one algorithm per file: each returns the character offsets at which sentences start."""

from clozeline.pipeline.text.sentences._splitter import Sentences

__all__ = ["Sentences"]
