"""Configuration of places: the way in which they enter the model, and how far a token sees."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.model.configuration.key_types import STRICT, Depth, Width, non_default_keys


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ScalingConfig:
    """Rotary positions for rows longer than those of the first training. `original_maximum` is the places of those."""

    READS: ClassVar = {
        "linear": (),
        "dynamic": ("original_maximum",),
        "llama3": ("original_maximum", "low_freq_factor", "high_freq_factor"),
        "yarn": (
            *("original_maximum", "beta_fast", "beta_slow", "truncate"),
            *("attention_factor", "mscale", "mscale_all_dim"),
        ),
    }

    kind: Literal["linear", "dynamic", "llama3", "yarn"]
    """linear divides all frequencies (arXiv 2306.15595); dynamic raises theta with the longest row of a batch; llama3
    divides the low frequencies (arXiv 2407.21783); so does yarn, and it sharpens the attention (arXiv 2309.00071)."""
    factor: Annotated[float, Field(ge=1)]
    """Divisor of the frequencies; of dynamic, the growth of theta."""
    original_maximum: Width | None = None
    """dynamic, llama3, yarn: places that the model was first trained with."""
    low_freq_factor: Annotated[float, Field(gt=0)] = 1.0
    """llama3: waves longer than original_maximum / low_freq_factor are divided by the whole factor."""
    high_freq_factor: Annotated[float, Field(gt=0)] = 4.0
    """llama3: waves shorter than original_maximum / high_freq_factor stay as they are."""
    beta_fast: Annotated[float, Field(gt=0)] = 32.0
    """yarn: waves that turn more often than this within original_maximum stay as they are."""
    beta_slow: Annotated[float, Field(gt=0)] = 1.0
    """yarn: waves that turn less often than this are divided by the whole factor."""
    truncate: bool = True
    """yarn: the bounds between both are whole numbers of a wave."""
    attention_factor: Annotated[float, Field(gt=0)] | None = None
    """yarn: factor of queries and keys; null = 0.1 ln(factor) + 1, or what mscale and mscale_all_dim give."""
    mscale: Annotated[float, Field(gt=0)] | None = None
    """yarn: with mscale_all_dim, the attention factor is (0.1 mscale ln(factor) + 1) / (0.1 mscale_all_dim ln(factor) +
    1)."""
    mscale_all_dim: Annotated[float, Field(gt=0)] | None = None
    """yarn: see mscale."""

    def __post_init__(self) -> None:
        reads = self.READS[self.kind]
        if unread := sorted(non_default_keys(self).keys() - {"kind", "factor", *reads}):
            raise ValueError(f"{unread[0]}: the kind {self.kind} does not read this key; remove it")
        if "original_maximum" in reads and self.original_maximum is None:
            raise ValueError(f"original_maximum: expected the places of the first training for {self.kind}, got none")
        if self.high_freq_factor <= self.low_freq_factor:
            raise ValueError(
                f"high_freq_factor: expected more than low_freq_factor {self.low_freq_factor}, got "
                f"{self.high_freq_factor}"
            )


@dataclass(frozen=True, kw_only=True, config=STRICT)
class LocalConfig:
    """Layers whose tokens see their neighbours alone, between layers that see the whole row (arXiv 2412.13663)."""

    window: Annotated[int, Field(ge=0, le=2**20)]
    """Places that a token sees on either side of its own."""
    global_every: Depth
    """Layers 0, n, 2n ... see the whole row; all others are local."""
    theta: Annotated[float, Field(gt=0)] | None = None
    """rope: base of the wave lengths in local layers, without position.scaling; null = as in the other layers."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class DisentangledConfig:
    """DeBERTa's relative places (arXiv 2006.03654), whose scores with the contents join those between contents."""

    content_to_position: bool = True
    """Score of a query's content with the key of the relative place."""
    position_to_content: bool = True
    """Score of a key's content with the query of the relative place."""
    max_distance: Width = 512
    """Distance in tokens from which all share the last row of their direction."""
    buckets: Annotated[int, Field(ge=2, le=4096)] | None = None
    """Rows of each direction: a half for one distance each, a half for ever wider ranges (arXiv 2111.09543);
    null = a row for each distance up to max_distance."""
    shared_projections: bool = False
    """Relative places have the projections of queries and keys; false = projections of their own."""
    norm: bool = False
    """A norm over the vectors of relative places."""
    convolution: Annotated[int, Field(ge=1, le=63)] | None = None
    """Tokens, an odd number, that a convolution beside the first layer reads (DeBERTa v2); null = none."""
    mask_decoder: Annotated[int, Field(ge=1, le=16)] | None = None
    """Enhanced mask decoder: times that the last layer is applied to the states before it, with queries that begin as
    these states plus learned absolute places, position.maximum of them (published: 2); null = none."""

    def __post_init__(self) -> None:
        if self.terms == 1:
            raise ValueError("expected content_to_position, position_to_content or both, got neither")
        if self.buckets and self.max_distance < self.buckets // 2 + 2:
            raise ValueError(f"max_distance: expected {self.buckets // 2 + 2} or more, got {self.max_distance}")
        if self.convolution and self.convolution % 2 == 0:
            raise ValueError(f"convolution: expected an odd number of tokens, got {self.convolution}")

    @property
    def rows(self) -> int:
        """Rows of the table, both directions."""
        return 2 * (self.buckets or self.max_distance)

    @property
    def terms(self) -> int:
        """Kinds of scores that are added, the one between contents among them."""
        return 1 + self.content_to_position + self.position_to_content

    @property
    def special_layers(self) -> int:
        """Layers that are more than a layer: the first with a convolution, the last as a mask decoder."""
        return (self.convolution is not None) + (self.mask_decoder is not None)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class PositionConfig:
    """Position information of a model."""

    kind: Literal["learned", "sinusoidal", "rope", "t5", "none"] = "learned"
    """learned and sinusoidal vectors are added to the embeddings, rope rotates queries and keys (arXiv 2104.09864),
    t5 adds a learnt bias to the attention scores by bucketed distance (arXiv 1910.10683). In the family xlnet,
    sinusoidal vectors are those of distances, and queries are compared with them."""
    maximum: Width = 512
    """learned: places the table has room for; a position id beyond it is an error."""
    offset: Annotated[int, Field(ge=0, le=64)] = 0
    """learned: rows of the table before place 0 (RoBERTa pad_id + 1, BART 2); it has maximum + offset rows."""
    theta: Annotated[float, Field(gt=0)] = 10000.0
    """rope: base of the wave lengths."""
    scaling: ScalingConfig | None = None
    """rope: change of the frequencies for rows longer than those of the first training; null = none."""
    buckets: Annotated[int, Field(ge=4, le=4096)] = 32
    """t5: rows of the bias table; halved between both directions where attention is bidirectional."""
    max_distance: Annotated[int, Field(ge=2, le=2**20)] = 128
    """t5: distance in tokens from which all share the last bucket."""
    disentangled: DisentangledConfig | None = None
    """learned, sinusoidal, none: relative places in the attention of an encoder, beside those of the kind."""

    def __post_init__(self) -> None:
        if self.scaling is not None and self.kind != "rope":
            raise ValueError(f"scaling: only rope is scaled; remove the key or change kind '{self.kind}'")
        if self.disentangled is not None and self.kind in ("rope", "t5"):
            raise ValueError(
                f"disentangled: expected the kind learned, sinusoidal or none beside it, got '{self.kind}'"
            )

    @property
    def limit(self) -> int | None:
        """Places that a row can have; None: any number."""
        decoded = self.disentangled is not None and self.disentangled.mask_decoder is not None
        return self.maximum if self.kind == "learned" or decoded else None

    @property
    def terms(self) -> int:
        """Kinds of scores that are added in attention."""
        return 1 if self.disentangled is None else self.disentangled.terms
