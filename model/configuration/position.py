"""Configuration of positions: how they enter the model, and how far a token sees."""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field

from clozeline.configuration.config import Natural, OnlyTraining, config_class
from clozeline.configuration.unread_keys import refuse_unread_keys
from clozeline.model.configuration.key_types import Depth, Width, list_to_tuple

Divisors = Annotated[tuple[Annotated[float, Field(gt=0)], ...], BeforeValidator(list_to_tuple)]
LayerType = Literal["full_attention", "sliding_attention"]
MAX_OFFSET: Final = 64
"""Rows that a table of learned positions can have before position 0."""


@config_class
class ScalingConfig:
    """Scaling of rotary positions for contexts longer than `original_maximum` in pretraining."""

    READS: ClassVar = {
        "linear": (),
        "dynamic": ("original_maximum",),
        "llama3": ("original_maximum", "low_freq_factor", "high_freq_factor"),
        "yarn": (
            *("original_maximum", "beta_fast", "beta_slow", "truncate"),
            *("attention_factor", "mscale", "mscale_all_dim"),
        ),
        "longrope": ("original_maximum", "short_factor", "long_factor", "attention_factor"),
    }

    kind: Literal["linear", "dynamic", "llama3", "yarn", "longrope"]
    """linear divides all frequencies (arXiv 2306.15595); dynamic raises theta with the longest row
    of a batch; llama3 divides the low frequencies (arXiv 2407.21783); so does yarn, which also
    sharpens the attention (arXiv 2309.00071); longrope has a divisor for each frequency, from one
    of two lists, depending on the longest row of a batch (arXiv 2402.13753)."""
    factor: Annotated[float, Field(ge=1)]
    """Divisor of the frequencies; dynamic: the growth of theta; longrope: the growth of the
    context, for attention_factor."""
    original_maximum: Width | None = None
    """dynamic, llama3, yarn, longrope: context length in pretraining."""
    low_freq_factor: Annotated[float, Field(gt=0)] = 1.0
    """llama3: wavelengths above original_maximum / low_freq_factor are divided by the full
    factor."""
    high_freq_factor: Annotated[float, Field(gt=0)] = 4.0
    """llama3: wavelengths below original_maximum / high_freq_factor are unchanged."""
    beta_fast: Annotated[float, Field(gt=0)] = 32.0
    """yarn: waves with more rotations than this within original_maximum are unchanged."""
    beta_slow: Annotated[float, Field(gt=0)] = 1.0
    """yarn: waves with fewer rotations than this are divided by the full factor."""
    truncate: bool = True
    """yarn: round the bounds of the range in between to integers."""
    attention_factor: Annotated[float, Field(gt=0)] | None = None
    """yarn, longrope: factor of queries and keys; null = 0.1 ln(factor) + 1, or computed from
    mscale and mscale_all_dim; longrope: sqrt(1 + ln(factor) / ln(original_maximum))."""
    mscale: Annotated[float, Field(gt=0)] | None = None
    """yarn: with mscale_all_dim, the attention factor is (0.1 mscale ln(factor) + 1) / (0.1
    mscale_all_dim ln(factor) + 1)."""
    mscale_all_dim: Annotated[float, Field(gt=0)] | None = None
    """yarn: see mscale."""
    short_factor: Divisors | None = None
    """longrope: divisor of each of the head_dim / 2 frequencies in batches of rows up to
    original_maximum."""
    long_factor: Divisors | None = None
    """longrope: the same for batches with a longer row."""

    def __post_init__(self) -> None:
        refuse_unread_keys(self, "kind", self.READS)

        if "original_maximum" in self.READS[self.kind] and self.original_maximum is None:
            raise ValueError(
                f"original_maximum: {self.kind} needs the context length of the pretraining"
            )
        # longrope lists its divisors, llama3 interpolates between two bounds
        if self.kind == "longrope" and (not self.short_factor or not self.long_factor):
            raise ValueError(
                "longrope needs short_factor and long_factor, each with a divisor per frequency"
            )

        if self.high_freq_factor <= self.low_freq_factor:
            low = self.low_freq_factor
            high = self.high_freq_factor
            raise ValueError(
                f"high_freq_factor: expected more than low_freq_factor {low}, got {high}"
            )


@config_class
class LocalConfig:
    """Layers that attend to a window, between layers that see the entire row (arXiv 2412.13663).

    Either `global_every` or `layer_types` selects the local layers.
    """

    window: Annotated[int, Field(ge=0, le=2**20)]
    """Positions that a token sees on each side."""
    global_every: Depth | None = None
    """Layers 0, n, 2n ... see the entire row; all others are local."""
    layer_types: Annotated[tuple[LayerType, ...], BeforeValidator(list_to_tuple)] | None = None
    """Type of each layer, as config.json of transformers lists them: full_attention sees the entire
    row, sliding_attention only the window."""
    theta: Annotated[float, Field(gt=0)] | None = None
    """rope: base of the wavelengths in local layers, without position.scaling; null = the base of
    the other layers."""

    def __post_init__(self) -> None:
        if (self.global_every is None) == (self.layer_types is None):
            got = "neither" if self.layer_types is None else "both"
            raise ValueError(
                f"set either global_every or layer_types, which select the local layers; got {got}"
            )

    def is_local(self, layer: int) -> bool:
        """Return whether a layer, from 0, sees only its window."""
        if self.layer_types is not None:
            return self.layer_types[layer] == "sliding_attention"
        return self.global_every is not None and layer % self.global_every != 0


@config_class
class DisentangledConfig:
    """DeBERTa's relative positions (arXiv 2006.03654), added to the scores between contents."""

    content_to_position: bool = True
    """Score of a query's content with the key of the relative position."""
    position_to_content: bool = True
    """Score of a key's content with the query of the relative position."""
    max_distance: Width = 512
    """Distance in tokens from which all share the last row of their direction."""
    buckets: Annotated[int, Field(ge=2, le=4096)] | None = None
    """Rows per direction: half of them for single distances, half for growing ranges (arXiv
    2111.09543); null = a row for each distance up to max_distance."""
    shared_projections: bool = False
    """Relative positions use the projections of queries and keys; false = separate ones."""
    norm: bool = False
    """A norm over the vectors of relative positions."""
    convolution: Annotated[int, Field(ge=1, le=63)] | None = None
    """Width in tokens, an odd number, of a convolution parallel to the first layer (DeBERTa v2);
    null = none."""
    mask_decoder: OnlyTraining[Annotated[int, Field(ge=1, le=16)] | None] = None
    """Enhanced mask decoder: how often the last layer is applied to the states before it. Its first
    queries are these states plus learned absolute positions, of which there are position.maximum
    (published: 2); null = none."""

    def __post_init__(self) -> None:
        if self.terms == 1:
            raise ValueError("set content_to_position, position_to_content, or both to true")
        if self.buckets and self.max_distance < self.buckets // 2 + 2:
            raise ValueError(
                f"max_distance: expected {self.buckets // 2 + 2} or more, got {self.max_distance}"
            )
        if self.convolution and self.convolution % 2 == 0:
            raise ValueError(
                f"convolution: expected an odd number of tokens, got {self.convolution}"
            )

    @property
    def rows(self) -> int:
        """Rows of the table, for both directions."""
        return 2 * (self.buckets or self.max_distance)

    @property
    def terms(self) -> int:
        """Number of scores that are added, the content-to-content one included."""
        return 1 + self.content_to_position + self.position_to_content

    @property
    def special_layers(self) -> int:
        """Layers with additions: the first has a convolution, the last is a mask decoder."""
        return (self.convolution is not None) + (self.mask_decoder is not None)


@config_class
class PositionConfig:
    """Position information of a model."""

    READS: ClassVar = {
        "learned": ("maximum", "offset", "disentangled"),
        "sinusoidal": ("waves", "disentangled"),
        "rope": ("theta", "scaling", "partial_rotary_factor", "nope_layers"),
        "t5": ("buckets", "max_distance", "per_layer"),
        "alibi": (),
        "none": ("disentangled",),
    }
    """Keys that each kind reads. `maximum` is allowed with each: an export declares it as the
    longest row."""

    kind: Literal["learned", "sinusoidal", "rope", "t5", "alibi", "none"] = "learned"
    """learned and sinusoidal vectors are added to the embeddings, rope rotates queries and keys
    (arXiv 2104.09864), t5 adds a learned bias to the attention scores by bucketed distance (arXiv
    1910.10683), alibi takes a fixed penalty for each token of distance off them (arXiv
    2108.12409). In the family xlnet, sinusoidal vectors encode distances and are compared with
    queries. Elsewhere they outweigh new token embeddings without `emb_scale`."""
    maximum: Width = 512
    """learned: positions of the table; a higher position id is an error. Other kinds: the longest
    row that an export declares."""
    offset: Annotated[int, Field(ge=0, le=MAX_OFFSET)] = 0
    """learned: rows of the table before position 0 (RoBERTa pad_id + 1, BART 2); it has maximum +
    offset rows."""
    waves: Literal["interleaved", "halves"] = "interleaved"
    """sinusoidal: sines in even and cosines in odd columns, or sines in the first half of the
    columns and cosines in the second (Marian, arXiv 1804.00344)."""
    theta: Annotated[float, Field(gt=0)] = 10000.0
    """rope: base of the wavelengths."""
    partial_rotary_factor: Annotated[float, Field(gt=0, le=1)] = 1.0
    """rope: share of a head's components, the first ones, that are rotated (GPT-NeoX 0.25, Phi
    0.5)."""
    nope_layers: Annotated[tuple[Natural, ...], BeforeValidator(list_to_tuple)] = ()
    """rope: layers, from 0, whose queries and keys are not rotated (NoPE layers of SmolLM3, arXiv
    2501.18795)."""
    scaling: ScalingConfig | None = None
    """rope: scaling of the frequencies for contexts longer than in pretraining; null = none."""
    buckets: Annotated[int, Field(ge=4, le=4096)] = 32
    """t5: rows of the bias table; half for each direction where attention is bidirectional."""
    max_distance: Annotated[int, Field(ge=2, le=2**20)] = 128
    """t5: distance in tokens from which all share the last bucket."""
    per_layer: bool = False
    """t5: a bias table in every layer (UMT5, arXiv 2304.09151) instead of one per stack."""
    disentangled: DisentangledConfig | None = None
    """learned, sinusoidal, none: relative positions in the attention of an encoder, in addition to
    those of `kind`."""

    def __post_init__(self) -> None:
        with_maximum = {kind: {*keys, "maximum"} for kind, keys in self.READS.items()}
        refuse_unread_keys(self, "kind", with_maximum)

    @property
    def limit(self) -> int | None:
        """Positions that a row can have; None: no limit."""
        decoded = self.disentangled is not None and self.disentangled.mask_decoder is not None
        return self.maximum if self.kind == "learned" or decoded else None

    @property
    def terms(self) -> int:
        """Number of scores that are added in attention."""
        return 1 if self.disentangled is None else self.disentangled.terms
