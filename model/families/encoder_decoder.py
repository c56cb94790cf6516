"""A causal stack that reads a bidirectional one: T5 (arXiv 1910.10683), BART (arXiv 1910.13461)."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from clozeline.columns import DECODER_TEXT, ROW_TEXT
from clozeline.model.configuration.layer import ConnectorConfig
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.families import ModelFamily
from clozeline.model.layers.activation import ACTIVATIONS
from clozeline.model.layers.cache import Cache
from clozeline.model.layers.documents import batch_documents
from clozeline.model.layers.masks import batch_padding
from clozeline.model.layers.norm import build_norm
from clozeline.model.layers.stack import Stack, layer_states
from clozeline.model.parameters.flops import matrix_flops


class EncoderDecoder(ModelFamily):
    """Two stacks that share the token table and, with `share.stacks`, their layers.

    With `connector`, the decoder attends to projected encoder states, and may have another width.
    The encoder's rows may be padded on the left by `left_padding` [B]. With `document_ids` and
    `decoder_document_ids`, a position sees only its own document, in both rows.
    """

    architecture = "encoder_decoder"
    read_keys = frozenset("*")
    stacks: ClassVar = {"encoder": False, "decoder": True}
    reads = (*ROW_TEXT, DECODER_TEXT.ids, DECODER_TEXT.positions)
    left_padding = True

    def __init__(self, config: ModelConfig, rows: int) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(rows, config.embedding_width)
        self.encoder = Stack(config, config.layers)
        self.connector = None if config.connector is None else Connector(config, config.connector)
        self.decoder = Stack(config.decoder, config.decoder_depth, causal=True, cross=True)
        if config.share.stacks:
            self.decoder.share(self.encoder)

    def forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        ids = tensors["input_ids"]
        target_ids = tensors["decoder_input_ids"]
        # one lookup for both, because each has a gradient as large as the table
        both = self.tokens(torch.cat((ids, target_ids), dim=1))
        vectors, target_vectors = both.split((ids.shape[1], target_ids.shape[1]), dim=1)
        return self._decode(tensors, target_vectors, *self._encode(tensors, vectors), None)

    def decode(self, tensors: Mapping[str, Tensor], cache: Cache | None) -> Tensor:
        if cache is None:
            return self(tensors)
        source, visible = cache.once(
            self, lambda: self._encode(tensors, self.tokens(tensors["input_ids"]))
        )
        return self._decode(
            tensors, self.tokens(tensors["decoder_input_ids"]), source, visible, cache
        )

    def layer_states(self, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the states [B, T, dim] of the encoder's embeddings and of each of its layers."""
        return layer_states(
            self.encoder, lambda: self._states(tensors, self.tokens(tensors["input_ids"]))
        )

    def _states(self, tensors: Mapping[str, Tensor], vectors: Tensor) -> Tensor:
        padding = batch_padding(tensors)
        types = tensors.get("type_ids")
        documents = batch_documents(tensors)
        return self.encoder(vectors, tensors["position_ids"], types, padding, documents=documents)

    def _encode(
        self, tensors: Mapping[str, Tensor], vectors: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Return the states [B, S, dim] that the decoder attends to, and their padding mask."""
        states = self._states(tensors, vectors)
        return states if self.connector is None else self.connector(states), batch_padding(tensors)

    def _decode(
        self,
        batch: Mapping[str, Tensor],
        vectors: Tensor,
        source: Tensor,
        visible: Tensor | None,
        cache: Cache | None,
    ) -> Tensor:
        positions = batch["decoder_position_ids"]
        return self.decoder(
            vectors,
            positions,
            None,
            None,
            source,
            visible,
            cache=cache,
            documents=batch_documents(batch, "decoder_"),
            source_documents=batch_documents(batch),
        )

    def sizes(self, target: str) -> ModelConfig:
        return self.config.decoder

    def flops(self, tokens: int, target_tokens: int) -> float:
        source = self.encoder.flops(tokens)
        if self.connector is not None:
            source += tokens * matrix_flops(self.connector)
        return source + self.decoder.flops(target_tokens, tokens)


class Connector(nn.Module):
    """Project encoder states to the width of the decoder.

    With one linear map, or with two, an activation and a norm.
    """

    def __init__(self, config: ModelConfig, options: ConnectorConfig) -> None:
        super().__init__()
        width = config.decoder.dim
        inner = options.hidden_dim
        self.enter = nn.Linear(config.dim, inner) if inner else None
        self.activation = ACTIVATIONS[config.activation]
        self.leave = nn.Linear(inner or config.dim, width)
        self.norm = build_norm(config, width) if inner else nn.Identity()

    def forward(self, states: Tensor) -> Tensor:
        """Map the encoder's states [B, S, dim] to [B, S, dim of the decoder]."""
        if self.enter is not None:
            states = self.activation(self.enter(states))
        return self.norm(self.leave(states))
