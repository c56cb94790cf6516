"""Tokenizers: one algorithm a file; how one is stored, loaded and found."""

from clozeline.pipeline.tokenize.tokenizers._tokenizer import (
    Encoding,
    Tokenizer,
    find_tokenizer,
    load_tokenizer,
    save_tokenizer,
    trainable,
    vocabulary_of,
)

__all__ = ["Encoding", "Tokenizer", "find_tokenizer", "load_tokenizer", "save_tokenizer", "trainable", "vocabulary_of"]
