"""MobileBERT (arXiv 2004.02984): a deep, thin encoder of bottleneck layers over trigrams."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from clozeline.columns import ROW_TEXT
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.families import ModelFamily
from clozeline.model.layers.bottleneck import (
    BottleneckConfig,
    BottleneckLayer,
    body_norm,
    neighbor_mask,
    trigrams,
)
from clozeline.model.layers.masks import batch_padding, document_mask, plan_attention
from clozeline.model.layers.position import Learned
from clozeline.model.parameters.flops import matrix_flops


class MobileBert(ModelFamily):
    """A bidirectional stack: every token sees its entire row, or its document (`document_ids`)."""

    Options = BottleneckConfig
    architecture = "encoder"
    layered = True
    reads = ROW_TEXT
    read_keys = ModelFamily.read_keys | {
        "kv_heads",
        "attn_logit_softcapping",
        "type_vocab_size",
        "position.offset",
    }
    fixed: ClassVar = {
        "norm_place": "post",
        "final_norm": False,
        "emb_norm": True,
        "dropout.output": 0.0,
    }
    unsupported: ClassVar = {
        "attention": "the family mobilebert reads both neighbors of a token, so it cannot read "
        "rows in several modes of attention; use another family, or an objective with "
        "attention: bidirectional"
    }

    def __init__(self, config: ModelConfig, rows: int) -> None:
        super().__init__()
        assert isinstance(config, BottleneckConfig)
        self.config = config
        self.tokens = nn.Embedding(rows, config.embedding_width)
        self.embeddings = TrigramEmbeddings(config)
        self.layers = nn.ModuleList(BottleneckLayer(config) for _ in range(config.layers))
        self._token_flops = matrix_flops(self.embeddings.project, self.layers)

    def forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return self.layer_states(tensors)[-1]

    def layer_states(self, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        self.refuse_unsupported(tensors)
        documents = tensors.get("document_ids")
        padding = batch_padding(tensors)
        vectors = trigrams(self.tokens(tensors["input_ids"]), neighbor_mask(padding, documents))
        states: list[Tensor] = [
            self.embeddings(vectors, tensors["position_ids"], tensors.get("type_ids"))
        ]

        pairs = None if documents is None else document_mask(documents)

        for layer in self.layers:
            states.append(
                layer(states[-1], plan_attention(None, padding, causal=False, pairs=pairs))
            )

        return states

    def flops(self, tokens: int, target_tokens: int) -> float:
        attention_width = self.config.attention_heads * self.config.head_width
        attention_flops = self.config.layers * 4.0 * attention_width * tokens
        return tokens * (self._token_flops + attention_flops)


class TrigramEmbeddings(nn.Module):
    """Everything between trigrams and the first layer.

    Projection, positions, segment types, norm and dropout.
    """

    def __init__(self, config: BottleneckConfig) -> None:
        super().__init__()
        self.project = nn.Linear(3 * config.embedding_width, config.dim)
        self.position = Learned(config.dim, config.position.maximum, config.position.offset)
        self.types = (
            nn.Embedding(config.type_vocab_size, config.dim) if config.type_vocab_size else None
        )
        self.norm = body_norm(config, config.dim)
        self.dropout = nn.Dropout(config.dropout.embedding)

    def forward(self, vectors: Tensor, positions: Tensor, types: Tensor | None) -> Tensor:
        """Return [B, T, dim] from trigrams [B, T, 3 x emb_dim], position ids and type ids [B, T].

        types None: all 0.
        """
        x = self.project(vectors) + self.position.embed(positions)
        if self.types is not None:
            x = x + self.types(positions.new_zeros(positions.shape) if types is None else types)
        return self.dropout(self.norm(x))
