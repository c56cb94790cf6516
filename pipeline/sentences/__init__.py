"""Sentence splitters: one algorithm a file, each giving the character offsets that tile a text."""

from pipeline.sentences._splitter import Sentences

__all__ = ["Sentences"]
