"""What earlier stages of a run wrote, as later ones read it: the tokenizer, and tokens."""

from collections.abc import Sequence
from pathlib import Path

from clozeline.pipeline.execution.unit_inputs import SomeShards, UnitInputs
from clozeline.pipeline.tokenize.tokenizers._tokenizer import VOCABULARY_FILE
from clozeline.pipeline.vocabulary import Vocabulary


def open_tokenizer(inputs: UnitInputs) -> Path:
    """Return the folder of the tokenizer, after verifying its files.

    StorageError or IntegrityError.
    """
    return inputs.folder("tokenizer", "main", "000000", "tokenizer/")


def open_vocabulary(inputs: UnitInputs) -> Vocabulary:
    """Return the vocabulary of the tokenizer."""
    return Vocabulary.load(open_tokenizer(inputs) / VOCABULARY_FILE)


def open_token_shards(inputs: UnitInputs, shards: Sequence[int] | None = None) -> SomeShards:
    """Return some shards of the documents that `encode` wrote; None: all of them."""
    return inputs.shards("encode", "manifest", "000000", "manifest.json", shards)
