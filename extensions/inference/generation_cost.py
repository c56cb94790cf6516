"""Compute what a generated token costs: FLOPs and the bytes of the key-value cache.

This file imports torch.
"""

from typing import NamedTuple

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model


class GenerationCost(NamedTuple):
    """Means per new token, and the size of the cache at the end."""

    cached_flops: float
    """each token is read once"""
    repeated_flops: float
    """without a cache: all tokens are read again for each new one"""
    position_bytes: int
    """keys and values of one position, in all layers of the decoder"""
    cache_bytes: int
    """cache after the last new token"""


def generation_cost(model: Model, source: int, tokens: int, start: int = 0) -> GenerationCost:
    """Return the cost of `tokens` new tokens after `source` tokens of a prompt or an input.

    The decoder of an encoder-decoder begins with `start` tokens.

    FLOPs are those of `Model.forward_flops`: matrix products of the stacks and of the head. The
    last new token is not read. A decoder stores the prompt and the new tokens. An encoder-decoder
    stores the new tokens, and the keys and values of its source for cross-attention.

    Raises:
        ConfigurationError: the model has no attention, and so no such cache.
    """
    sizes = model.family.sizes("lm")
    if not getattr(sizes, "attention_heads", 0):
        raise ConfigurationError("dry_run: the cost is known for models with attention only")

    # a decoder's row grows behind the prompt
    rows = [(source, start + number) if start else (source + number, 0) for number in range(tokens)]
    cached = model.forward_flops(*rows[-1], labels_per_row=tokens)
    repeated = sum(model.forward_flops(*row, labels_per_row=1) for row in rows)

    weight = next(model.family.parameters())
    width = sizes.key_value_heads * sizes.head_width
    position = 2 * sizes.layers * width * weight.element_size()
    stored = source + start + tokens - 1
    return GenerationCost(cached / tokens, repeated / tokens, position, stored * position)
