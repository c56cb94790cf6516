"""Tokenizers, one algorithm per file, and how to save, load and find them."""

from clozeline.pipeline.tokenize.tokenizers._pieces import Encoding, Tokenizer
from clozeline.pipeline.tokenize.tokenizers._tokenizer import (
    any_of,
    find_tokenizer,
    is_trainable,
    load_tokenizer,
    save_tokenizer,
    special_ids,
    tokenizer_facts,
    trainable,
    vocabulary_of,
)

__all__ = [
    "Encoding",
    "Tokenizer",
    "any_of",
    "find_tokenizer",
    "is_trainable",
    "load_tokenizer",
    "save_tokenizer",
    "special_ids",
    "tokenizer_facts",
    "trainable",
    "vocabulary_of",
]
