"""A bidirectional stack: BERT (arXiv 1810.04805) and similar models."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from clozeline.columns import ROW_TEXT, BatchField
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.families import ModelFamily
from clozeline.model.layers.documents import batch_documents
from clozeline.model.layers.masks import batch_padding, pair_mask
from clozeline.model.layers.stack import Stack, layer_states

MODE_TYPES = 6
"""Number of segment types that distinguish UniLM's modes; a smaller table has segments only."""


class Encoder(ModelFamily):
    """A bidirectional stack: every token sees its entire row, or its document (`document_ids`).

    With `attention`, each row is read in one of UniLM's four modes (arXiv 1905.03197). `type_ids`
    distinguish modes and segments; a table of fewer than 6 segment types reads `segment_ids`
    instead, if there are any. Rows may be padded on the left by `left_padding` [B]. With
    `languages`, the vector of its language is added to each token (XLM, arXiv 1901.07291).
    """

    architecture = "encoder"
    read_keys = frozenset("*")
    stacks: ClassVar = {"stack": False}
    reads: ClassVar[tuple[BatchField, ...]] = ROW_TEXT
    left_padding = True
    layered = True
    universal = True

    def __init__(self, config: ModelConfig, rows: int) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(rows, config.embedding_width)
        self.languages = (
            nn.Embedding(config.languages, config.embedding_width) if config.languages else None
        )
        self.stack = Stack(config, config.layers)

    def forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return self.read(self.stack, self.tokens(tensors["input_ids"]), tensors)

    def read(self, stack: Stack, vectors: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return a stack's states [B, T, dim] of rows with these token vectors [B, T, emb_dim]."""
        segments_only = "attention" in tensors and self.config.type_vocab_size < MODE_TYPES
        types = tensors.get("segment_ids" if segments_only else "type_ids")
        if self.languages is not None and "languages" in tensors:
            vectors = vectors + self.languages(tensors["languages"])
        pairs = pair_mask(tensors) if "attention" in tensors else None
        positions = tensors["position_ids"]
        documents = batch_documents(tensors)
        return stack(
            vectors, positions, types, batch_padding(tensors), pairs=pairs, documents=documents
        )

    def layer_states(self, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        return layer_states(self.stack, lambda: self(tensors))

    def flops(self, tokens: int, target_tokens: int) -> float:
        return self.stack.flops(tokens)
