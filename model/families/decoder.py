"""A causal stack: GPT-2, Llama (arXiv 2302.13971) and similar models."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from clozeline.columns import INPUT_IDS, POSITION_IDS
from clozeline.errors import BatchError
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.families import ModelFamily
from clozeline.model.layers.cache import Cache
from clozeline.model.layers.documents import batch_documents
from clozeline.model.layers.masks import batch_padding
from clozeline.model.layers.stack import Stack, layer_states


class Decoder(ModelFamily):
    """A causal stack: every token sees itself and the tokens before it.

    Padding is on the right, where no token looks, or on the left according to `left_padding` [B]
    and `lengths`. With `document_ids`, packed documents of a row do not see each other. The first
    `prefix_length` positions of a row see each other in both directions (prefix LM, arXiv
    1910.10683).
    """

    architecture = "decoder"
    read_keys = frozenset("*")
    stacks: ClassVar = {"stack": True}
    reads = (INPUT_IDS, POSITION_IDS)
    left_padding = True
    layered = True
    universal = True

    def __init__(self, config: ModelConfig, rows: int) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(rows, config.embedding_width)
        self.stack = Stack(config, config.layers, causal=True)

    def forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return self.decode(tensors, None)

    def decode(self, tensors: Mapping[str, Tensor], cache: Cache | None) -> Tensor:
        if cache is not None and "left_padding" in tensors:
            raise BatchError(
                "left_padding: prompts that continue a cache must be padded on the right, not on "
                "the left"
            )

        vectors = self.tokens(tensors["input_ids"])
        # causality alone hides padding on the right
        padding = batch_padding(tensors) if "left_padding" in tensors else None
        prefix = tensors.get("prefix_length")
        return self.stack(
            vectors,
            tensors["position_ids"],
            tensors.get("type_ids"),
            padding,
            prefix_length=None if prefix is None else prefix.to(vectors.device),
            cache=cache,
            documents=batch_documents(tensors),
        )

    def layer_states(self, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        return layer_states(self.stack, lambda: self(tensors))

    def flops(self, tokens: int, target_tokens: int) -> float:
        return self.stack.flops(tokens)
