"""Tokenizers, one algorithm per file, and functions to save, load and find them."""

from clozeline.pipeline.tokenize.tokenizers._pieces import Encoding, Tokenizer
from clozeline.pipeline.tokenize.tokenizers._tokenizer import (
    find_tokenizer,
    find_vocabulary,
    is_trainable,
    list_trainable,
    load_tokenizer,
    pieces_pattern,
    save_tokenizer,
    special_ids,
    tokenizer_metadata,
)

__all__ = [
    "Encoding",
    "Tokenizer",
    "find_tokenizer",
    "find_vocabulary",
    "is_trainable",
    "list_trainable",
    "load_tokenizer",
    "pieces_pattern",
    "save_tokenizer",
    "special_ids",
    "tokenizer_metadata",
]
