"""DeBERTa's disentangled attention, convolution and enhanced mask decoder (arXiv 2006.03654)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import DisentangledConfig
from clozeline.model.layers.activation import ACTIVATIONS
from clozeline.model.layers.attention import Attention
from clozeline.model.layers.layer import Layer, SelfAttention
from clozeline.model.layers.masks import BLOCKED, AttentionPlan, RelativePositions
from clozeline.model.layers.norm import build_norm
from clozeline.model.parameters.initial_values import Draw
from clozeline.model.parameters.sharding import full_shape


class RelativeTable(nn.Module):
    """A learned vector for each relative position, shared by all layers of a stack."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        chosen = config.position.disentangled or DisentangledConfig()
        self.table = nn.Embedding(chosen.rows, config.dim)
        self.norm = build_norm(config, config.dim) if chosen.norm else nn.Identity()
        self.max_distance = chosen.max_distance
        self.buckets = chosen.buckets

    def forward(self, positions: Tensor) -> RelativePositions:
        """Return the vectors, and the table row of each pair of `positions` [B, T] or [1, T]."""
        all_rows = torch.arange(self.table.num_embeddings, device=positions.device)
        rows = relative_row(
            positions[:, :, None] - positions[:, None, :], self.max_distance, self.buckets
        )
        return RelativePositions(self.norm(self.table(all_rows)), rows, positions)


class DisentangledAttention(Attention):
    """Self-attention that adds content-position and position-content scores to its own.

    Scores and softmax are fp32 whatever the dtype of the weights: in bf16 the sums lose too much
    precision.
    """

    def __init__(self, config: ModelConfig, depth: int = 0) -> None:
        super().__init__(config, depth)
        chosen = config.position.disentangled or DisentangledConfig()
        separate = not chosen.shared_projections
        self.key_of_place = _like(self.key) if separate and chosen.content_to_position else None
        self.query_of_place = _like(self.query) if separate and chosen.position_to_content else None
        self.chosen = chosen
        self.position_dropout = nn.Dropout(config.dropout.hidden)

    def forward(  # type: ignore[override]
        self, x: Tensor, plan: AttentionPlan, source: Tensor | None = None
    ) -> Tensor:
        """Map [B, T, dim] to the same shape; keys and values come from `source`, or from `x`."""
        return super().forward(x, source, plan)

    def mix(self, query: Tensor, key: Tensor, value: Tensor, plan: AttentionPlan) -> Tensor:
        assert plan.relative is not None
        # in fp32, as the class says; the sum of all scores is the mask of the usual attention
        wide_query = query.float()
        wide_key = key.float()
        scores = self.scale * self.position_scores(wide_query, wide_key, plan.relative)
        if plan.mask is not None:
            scores = scores.masked_fill(~plan.mask, BLOCKED)
        return (
            super()
            .mix(wide_query, wide_key, value.float(), plan._replace(mask=scores))
            .to(value.dtype)
        )

    def position_scores(self, query: Tensor, key: Tensor, relative: RelativePositions) -> Tensor:
        """Return the scores [B, heads, T, T] of contents [B, heads, T, head_dim] with positions.

        Both terms use the distance query - key, as the published code does; equation 4 of the paper
        has the opposite sign for position-to-content.
        """
        vectors = self.position_dropout(relative.vectors)
        rows = relative.rows[:, None].expand(*query.shape[:2], *relative.rows.shape[1:])

        scores = query.new_zeros(())
        # content-to-position: queries [B, heads, T, head_dim] times one key per distance
        # [1, heads, rows, head_dim]
        if self.chosen.content_to_position:
            position = self._split((self.key_of_place or self.key)(vectors)[None]).float()
            scores = scores + (query @ position.mT).gather(-1, rows)
        # position-to-content: keys times one query per distance
        if self.chosen.position_to_content:
            position = self._split((self.query_of_place or self.query)(vectors)[None]).float()
            scores = scores + (key @ position.mT).gather(-1, rows.mT).mT

        return scores

    def score_flops(self, queries: float, visible: float) -> float:
        """The projections of relative positions are needed once per batch, and do not count."""
        positions = 2 * self.query.out_features * self.chosen.rows * (self.chosen.terms - 1)
        return super().score_flops(queries, visible) + queries * positions


def relative_row(distance: Tensor, max_distance: int, buckets: int | None) -> Tensor:
    """Return the table row of each distance query - key, int64 of any shape.

    Example (two rows for keys after the query, then two for its own position and earlier ones):
        >>> relative_row(torch.tensor([-9, -2, -1, 0, 1, 2]), max_distance=2, buckets=None).tolist()
        [0, 0, 1, 2, 3, 3]
    """
    half = buckets or max_distance
    position = log_bucket(distance, buckets, max_distance) if buckets else distance
    return (position + half).clamp(0, 2 * half - 1)


def log_bucket(distance: Tensor, buckets: int, max_distance: int) -> Tensor:
    """Return the signed bucket of each distance.

    It is the distance itself up to buckets / 2, then logarithmic, rounded up.

    `buckets` is the number of one direction; distance max_distance - 1 is in the last, buckets - 1.

    Example:
        >>> distances = torch.tensor([-511, -4, -3, -2, 0, 2, 3, 40, 511])
        >>> log_bucket(distances, buckets=6, max_distance=512).tolist()
        [-5, -4, -3, -2, 0, 2, 3, 5, 5]
    """
    exact = buckets // 2
    # Both logarithms are fp32, so that their ratio is exactly 1 at the last distance.
    full = torch.log(torch.tensor((max_distance - 1) / exact))
    ratio = torch.log(distance.abs().clamp(min=exact) / exact) / full
    shared = torch.ceil(ratio * (exact - 1)).long() + exact
    return torch.where(distance.abs() <= exact, distance, shared * distance.sign())


def _like(linear: nn.Linear) -> nn.Linear:
    """Build a projection of the same shape."""
    return nn.Linear(linear.in_features, linear.out_features, bias=linear.bias is not None)


class Convolution(nn.Module):
    """A convolution over the tokens around each position.

    Tokens that the position may not see count as zeros.
    """

    def __init__(self, dim: int, tokens: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim, dim, tokens))
        self.bias = nn.Parameter(torch.zeros(dim))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        return {"weight": usual}

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Map x [B, T, dim] to the same shape; `mask` [B, 1, T or 1, T] is True where visible."""
        tokens = self.weight.shape[-1]
        half = tokens // 2
        # [B, T, dim, tokens]
        around = F.pad(x, (0, 0, half, half)).unfold(1, tokens, 1)

        if mask is not None:
            # which of the tokens around each position are visible, [B, T, tokens]
            columns = mask.shape[-1]
            visible = F.pad(mask[:, 0].expand(-1, columns, -1), (half, half))
            start = torch.arange(columns, device=mask.device)[:, None]
            index = start + torch.arange(tokens, device=mask.device)
            around = around * visible.gather(2, index.expand(len(visible), -1, -1))[:, :, None]

        return F.linear(around.flatten(2), self.weight.flatten(1), self.bias)


class ConvolutionLayer(Layer):
    """A layer and a convolution in parallel.

    norm(layer(x) + activation(dropout(convolution(x))))
    """

    def __init__(self, config: ModelConfig, tokens: int) -> None:
        super().__init__(config, cross=False, attention=DisentangledAttention)
        self.convolution = Convolution(config.dim, tokens)
        self.norm = build_norm(config, config.dim)
        self.dropout = nn.Dropout(config.dropout.hidden)
        self.act = ACTIVATIONS[config.activation]

    def forward(
        self, x: Tensor, plan: AttentionPlan, source: Tensor | None, source_plan: AttentionPlan
    ) -> Tensor:
        convolved = self.act(self.dropout(self.convolution(x, plan.mask)))
        return self.norm(super().forward(x, plan, source, source_plan) + convolved)

    def flops(self, tokens: float, visible: float, source: float = 0) -> float:
        convolved = 2 * tokens * full_shape(self.convolution.weight).numel()
        return super().flops(tokens, visible, source) + convolved


class MaskDecoder(Layer):
    """The enhanced mask decoder (§3.2): absolute positions enter only where tokens are decoded.

    The layer is applied several times. Keys and values always come from the states x of the
    previous layer. Queries are x plus the position vectors at first, then the layer's last output.
    """

    def __init__(self, config: ModelConfig, steps: int) -> None:
        super().__init__(config, cross=False, attention=DisentangledAttention)
        self.places = nn.Embedding(config.position.maximum, config.dim)
        self.steps = steps

    def forward(
        self, x: Tensor, plan: AttentionPlan, source: Tensor | None, source_plan: AttentionPlan
    ) -> Tensor:
        assert plan.relative is not None
        query: Tensor = x + self.places(plan.relative.absolute)
        for _ in range(self.steps):
            query = self.feed_forward(self.attention(query, plan, x))
        return query

    def flops(self, tokens: float, visible: float, source: float = 0) -> float:
        return self.steps * super().flops(tokens, visible, source)


def build_layers(config: ModelConfig, layers: int, cross: bool) -> list[Layer]:
    """Build the layers of a stack, with DeBERTa's first and last layer if configured."""
    chosen = config.position.disentangled
    attention = SelfAttention if chosen is None else DisentangledAttention
    layers_of_stack = [Layer(config, cross, number, attention) for number in range(layers)]
    if chosen is not None and chosen.mask_decoder is not None:
        layers_of_stack[-1] = MaskDecoder(config, chosen.mask_decoder)
    if chosen is not None and chosen.convolution is not None:
        layers_of_stack[0] = ConvolutionLayer(config, chosen.convolution)
    return layers_of_stack
