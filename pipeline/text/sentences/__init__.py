"""Sentence splitters: one algorithm a file, each giving the character offsets that tile a text."""

from clozeline.pipeline.text.sentences._splitter import Sentences

__all__ = ["Sentences"]
