"""The characters of tokens, for a model that reads them."""

from __future__ import annotations

from model.config import ModelConfig
from model.registry import find
from pipeline.shards import ShardSet
from pipeline.tokenizers import find_tokenizer, load_tokenizer

__all__ = ["spellings_of"]


def spellings_of(model: ModelConfig, shards: ShardSet) -> list[bytes] | None:
    """Return the UTF-8 of each token's piece; None where the family of the model reads no characters.

    Args:
        model: what is built.
        shards: the set that it is trained on; its tokenizer is looked for above it.

    Raises:
        ConfigurationError: the tokenizer is not found.
        IntegrityError: its files are damaged.
    """
    if not find("model.families", model.family).spelled:
        return None
    tokenizer = load_tokenizer(find_tokenizer(shards.path, shards.manifest.tokenizer.fingerprint))
    return [tokenizer.piece(token).encode() for token in range(tokenizer.vocabulary.size)]
