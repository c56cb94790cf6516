"""Return the bytes of each token's text, for models that read characters."""

from collections.abc import Callable

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, find_tokenizer, load_tokenizer
from clozeline.registry import find


def spellings_by(model: ModelConfig, tokenizer: Callable[[], Tokenizer]) -> list[bytes] | None:
    """Return the UTF-8 of each token's piece; None if the family reads no characters."""
    if not find("clozeline.model.families", model.family).reads_characters:
        return None
    loaded = tokenizer()
    return [loaded.piece(token).encode() for token in range(loaded.vocabulary.size)]


def spellings_of(model: ModelConfig, shards: ShardSet) -> list[bytes] | None:
    """Return them with the tokenizer of a shard set."""
    return spellings_by(
        model, lambda: load_tokenizer(find_tokenizer(shards.path, shards.manifest.tokenizer.fingerprint))
    )
