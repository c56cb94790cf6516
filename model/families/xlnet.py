"""XLNet (arXiv 1906.08237): a content stream, and a query stream that does not see its tokens."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from clozeline.columns import INPUT_IDS, LENGTHS, RANK, TYPE_IDS
from clozeline.model.compilation.host_shapes import prediction_positions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.families import ModelFamily
from clozeline.model.layers.masks import batch_padding, pair_mask, rank_mask
from clozeline.model.layers.norm import build_norm
from clozeline.model.layers.position import Position
from clozeline.model.layers.relative import RelativeLayer, RelativePlan, distance_waves, wave_index
from clozeline.model.layers.vocabulary import Embeddings
from clozeline.model.parameters.initial_values import Draw


class XLNet(ModelFamily):
    """A bidirectional stack whose attention uses distances and segments instead of positions.

    `rank` [B, T] is the order of prediction, 0 for context. A position of the content stream reads
    positions of its own and of lower ranks. The query stream has only the predicted positions: it
    starts from a learned vector instead of the token, and reads the content of lower ranks. Both
    use the same weights, so they form one matrix of states, of which the first T are also keys and
    values. Without `rank`, every token sees its row. Segment-level recurrence is not implemented.
    """

    architecture = "encoder"
    reads = (INPUT_IDS, LENGTHS)
    left_padding = True
    optional = (RANK, TYPE_IDS)
    read_keys = ModelFamily.read_keys | {"norm_place", "final_norm", "emb_norm", "emb_scale"}
    fixed: ClassVar = {"position.kind": "sinusoidal", "bias.qkv": False, "bias.out": False}

    def __init__(self, config: ModelConfig, rows: int) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(rows, config.embedding_width)
        self.unknown = nn.Parameter(torch.zeros(config.embedding_width))
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(RelativeLayer(config) for _ in range(config.layers))
        self.norm = build_norm(config, config.dim) if config.final_norm else nn.Identity()
        self.wave_dropout = nn.Dropout(config.dropout.embedding)
        self.dropout = nn.Dropout(config.dropout.output)

    def forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the states [B, T, dim]: queries at predicted positions, content elsewhere."""
        ids = tensors["input_ids"]
        rows, columns = ids.shape
        # ranks [B, T] and predicted positions [B, 1 or more]; without an order, one unread query
        rank = tensors.get("rank", torch.zeros_like(ids, dtype=torch.int64))
        predicted = rank[:, :1] if "rank" not in tensors else tensors.get("predicted_positions")
        predicted = prediction_positions(rank) if predicted is None else predicted
        # content [B, T, dim] and queries [B, P, dim] in one matrix, [B, T + P, dim]
        unknown = self.unknown.expand(*predicted.shape, -1)
        positions = torch.cat(
            (torch.arange(columns, device=ids.device).expand(rows, -1), predicted), dim=1
        )
        vectors = self.tokens(ids)
        x = torch.cat((vectors, unknown.to(vectors.dtype)), dim=1)
        x = self.embeddings(x, Position(), positions, None)
        plan = self._plan(tensors, rank, positions)
        for layer in self.layers:
            x = layer(x, plan)
        x = self.dropout(self.norm(x))
        # at predicted positions take the state of their query
        slots = (rank - 1).clamp(min=0)[..., None].expand(-1, -1, x.shape[-1])
        return torch.where((rank > 0)[..., None], x[:, columns:].gather(1, slots), x[:, :columns])

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        return {"unknown": usual}

    def _plan(self, tensors: Mapping[str, Tensor], rank: Tensor, positions: Tensor) -> RelativePlan:
        """Return the attention plan, from the position [B, Tq] of each query."""
        columns = rank.shape[1]
        device = rank.device
        # segment types, and which content each query reads: by rank, padding and document
        types = tensors.get("type_ids", torch.zeros_like(rank))
        visible = rank_mask(rank, positions.shape[1] - columns)
        padding = batch_padding(tensors)
        if padding is not None:
            visible = visible & padding
        if (pairs := pair_mask(tensors)) is not None:
            visible = visible & pairs.gather(
                2, positions[:, None, :, None].expand(-1, -1, -1, columns)
            )

        return RelativePlan(
            self.wave_dropout(distance_waves(columns, self.config.dim, device)),
            wave_index(positions, columns),
            (types.gather(1, positions)[:, :, None] != types[:, None, :])[:, None],
            visible,
        )

    def flops(self, tokens: int, target_tokens: int) -> float:
        layers: Any = self.layers
        keys = sum(layer.attention.body.key_flops(tokens) for layer in layers)
        return keys + tokens * self.label_flops(tokens)

    def label_flops(self, tokens: int) -> float:
        """Return what the query of a predicted position adds: no keys, values or waves."""
        layers: Any = self.layers
        return sum(layer.flops(1, tokens) for layer in layers)
