"""Tokenizers: one algorithm a file, all lossless; how a trained one is stored, loaded and found."""

from pipeline.tokenizers._tokenizer import (
    Encoding,
    Tokenizer,
    find_tokenizer,
    load_tokenizer,
    save_tokenizer,
    vocabulary_of,
)

__all__ = ["Encoding", "Tokenizer", "find_tokenizer", "load_tokenizer", "save_tokenizer", "vocabulary_of"]
