"""One causal stack: GPT-2, Llama (arXiv 2302.13971) and their kin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from model.cache import Cache
from model.config import ModelConfig
from model.families import Family
from model.flops import layer_flops
from model.layers.stack import Stack
from model.masks import document_mask

__all__ = ["Decoder"]


class Decoder(Family):
    """A causal stack: every token sees itself and the tokens before it. Padding is on the right, where no token looks.

    With `document_ids`, packed documents of a row do not see each other; the first `prefix_length` places of a row
    see each other in both directions (prefix LM, arXiv 1910.10683).
    """

    architecture: ClassVar = "decoder"
    needs: ClassVar = frozenset({"input_ids", "position_ids"})

    def __init__(self, config: ModelConfig, rows: int) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(rows, config.embedding_width)
        self.stack = Stack(config, config.layers, causal=True)

    def forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return hidden states [B, T, dim]."""
        return self.decode(tensors, None)

    def decode(self, tensors: Mapping[str, Tensor], cache: Cache | None) -> Tensor:
        """Return hidden states [B, n, dim] of the tokens given."""
        vectors = self.tokens(tensors["input_ids"])
        documents = document_mask(tensors["document_ids"]) if "document_ids" in tensors else None
        prefix = tensors.get("prefix_length")
        if prefix is not None:
            prefix = prefix.to(vectors.device)
        hidden: Tensor = self.stack(
            vectors,
            tensors["position_ids"],
            tensors.get("type_ids"),
            None,
            pairs=documents,
            prefix_length=prefix,
            cache=cache,
        )
        return hidden

    def flops(self, tokens: int, target_tokens: int) -> float:
        """Return the floating-point operations of one row's forward; `target_tokens` is 0."""
        return self.config.layers * layer_flops(self.config, tokens, tokens / 2)
