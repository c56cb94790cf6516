"""Configuration of a model. Every size and every switch is a key; sizes are never code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    TypeAdapter,
    ValidatorFunctionWrapHandler,
)
from pydantic.dataclasses import dataclass
from pydantic_core import CoreSchema, core_schema

from model.registry import find, names

__all__ = [
    "STRICT",
    "BiasConfig",
    "DropoutConfig",
    "HeadConfig",
    "InitConfig",
    "ModelConfig",
    "PositionConfig",
    "ShareConfig",
]

STRICT: Final = ConfigDict(extra="forbid", use_attribute_docstrings=True)
"""Unknown keys are errors; the docstring below a field is its description."""

# Upper bounds refuse a typing error before memory is allocated; the largest published models fit.
Width = Annotated[int, Field(ge=1, le=2**20)]
Depth = Annotated[int, Field(ge=1, le=1024)]
Probability = Annotated[float, Field(ge=0, lt=1)]
Activation = Literal["gelu", "gelu_tanh", "relu", "silu"]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class PositionConfig:
    """Position information of a model."""

    kind: Literal["learned", "sinusoidal", "rope", "t5", "none"] = "learned"
    """learned and sinusoidal vectors are added to the embeddings, rope rotates queries and keys (arXiv 2104.09864),
    t5 adds a learnt bias to the attention scores by bucketed distance (arXiv 1910.10683)."""
    maximum: Width = 512
    """learned: places the table has room for; a position id beyond it is an error."""
    offset: Annotated[int, Field(ge=0, le=64)] = 0
    """learned: rows of the table before place 0 (RoBERTa pad_id + 1, BART 2); it has maximum + offset rows."""
    theta: Annotated[float, Field(gt=0)] = 10000.0
    """rope: base of the wave lengths."""
    buckets: Annotated[int, Field(ge=4, le=4096)] = 32
    """t5: rows of the bias table; halved between both directions where attention is bidirectional."""
    max_distance: Annotated[int, Field(ge=2, le=2**20)] = 128
    """t5: distance in tokens from which all share the last bucket."""

    @property
    def limit(self) -> int | None:
        """Places that a row can have; None: any number."""
        return self.maximum if self.kind == "learned" else None


@dataclass(frozen=True, kw_only=True, config=STRICT)
class BiasConfig:
    """Biases of the projections of a layer."""

    qkv: bool = True
    """Queries, keys and values."""
    out: bool = True
    """The attention's output projection."""
    ffn: bool = True
    """Both ends of the feed-forward block."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class DropoutConfig:
    """Dropout probabilities in [0, 1)."""

    embedding: Probability = 0.0
    """After the embeddings (and their norm)."""
    attention: Probability = 0.0
    """Attention weights."""
    hidden: Probability = 0.0
    """The output of each attention and feed-forward block, before it is added to the residual."""
    activation: Probability = 0.0
    """Inside the feed-forward block, after the activation."""
    output: Probability = 0.0
    """After the stack's final norm (T5)."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class InitConfig:
    """Initial weights. Biases are 0 and norm gains 1 in every scheme."""

    scheme: Literal["normal", "t5"] = "normal"
    """normal: N(0, std) everywhere. t5: N(0, 1) embeddings, projections scaled by their fan (arXiv 1910.10683)."""
    std: Annotated[float, Field(gt=0, le=10)] = 0.02
    """Standard deviation of the normal scheme."""
    scale_residual: bool = False
    """GPT-2: projections that write into the residual stream get std / sqrt(2 x layers)."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ShareConfig:
    """Layers that use the same weights."""

    groups: Depth | None = None
    """Sets of weights that the layers of a stack use, the first ones the first set (arXiv 1909.11942); 1 = all layers
    are alike, null = every layer has its own."""
    group_layers: Depth = 1
    """Layers of a group, applied in order; a divisor of the layers of each stack."""
    stacks: bool = False
    """encoder_decoder: both stacks use the same layers; positions and cross-attention stay apart (arXiv 1910.10683)."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class HeadConfig:
    """The part of a head in the loss of the model."""

    weight: Annotated[float, Field(gt=0)] = 1.0
    """Factor of the head's mean loss."""
    normalise: Literal["label", "row"] = "label"
    """lm, masked_lm, span_boundary: unit that weighs alike in the head's mean: each label, or each row that has labels,
    whatever their number (arXiv 2410.24159)."""
    transform: bool = True
    """masked_lm: a linear map, the activation and a norm before the projection; XLM and XLNet have none."""
    max_span_tokens: Annotated[int, Field(ge=1, le=2**16)] = 30
    """span_boundary: tokens of a span with a loss; those after them are not predicted (arXiv 1907.10529)."""
    copy_weight: Annotated[float, Field(ge=0)] = 50.0
    """corrective: factor of the loss of copying, beside 1 for the loss of the tokens (arXiv 2102.08473)."""
    temperature: Annotated[float, Field(gt=0)] = 0.05
    """similarity: cosines are divided by it; SimCSE 0.05 (arXiv 2104.08821), COCO-LM 1."""
    group_size: Annotated[int, Field(ge=2, le=2**20)] = 8
    """similarity: consecutive rows of the global batch whose texts are compared, a divisor of data.micro_batch."""
    negatives: Literal["other", "both"] = "other"
    """similarity: other, first views are compared with the second views of the group (SimCSE); both, each view is with
    all views of other rows (COCO-LM)."""


def _families() -> list[str]:
    return names("model.families")


def _of_family(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    if isinstance(value, Mapping) and value.get("family") in _families():
        options = find("model.families", value["family"]).Options
        if options is not ModelConfig:  # as JSON, in which a list is strictly a tuple
            return TypeAdapter(options).validate_json(json.dumps(value, default=str), strict=True)
    return validate(value)


def _long_form(value: Any) -> Any:
    return {"weight": value} if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _short_form(head: HeadConfig) -> Any:
    changed = _changed_keys(head)
    return {"weight": head.weight} | changed if changed else head.weight


def _changed_keys(head: HeadConfig) -> dict[str, Any]:
    """Return the values that are not the defaults, besides `weight`."""
    default = HeadConfig()
    return {key: value for key, value in asdict(head).items() if key != "weight" and value != getattr(default, key)}


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ModelConfig:
    """One Transformer (arXiv 1706.03762), assembled from parts.

    A family with keys of its own declares a subclass as its `Options`. A mapping that names such a family becomes an
    instance of that subclass.
    """

    RENAMED: ClassVar = {"ffn": "ffn_dim", "act": "activation", "types": "type_vocab_size"}

    family: str
    """A file of model/families, for example encoder, decoder or encoder_decoder."""
    dim: Width
    """Width of the residual stream."""
    layers: Depth
    """Layers of the (encoder) stack."""
    decoder_layers: Depth | None = None
    """encoder_decoder: layers of the decoder; null = layers."""
    attention_heads: Width
    """Query heads of each attention."""
    kv_heads: Width | None = None
    """Key and value heads, a divisor of attention_heads (arXiv 2305.13245); null = attention_heads."""
    head_dim: Width | None = None
    """Width of one head; null = dim / attention_heads."""
    ffn_dim: Width
    """Inner width of the feed-forward block."""
    emb_dim: Width | None = None
    """Width of the embedding tables; another width than dim adds a projection between them; null = dim."""
    out_dim: Width | None = None
    """Width of the masked_lm heads' states before the projection; another width than emb_dim needs tied: false; null =
    the width of the embeddings."""
    tied: bool = True
    """The output projection of the heads is the token embedding."""
    vocab_multiple: Annotated[int, Field(ge=1, le=4096)] = 1
    """Embedding rows are padded to a multiple of this; a padding row is never predicted and has no loss."""
    type_vocab_size: Annotated[int, Field(ge=0, le=4096)] = 0
    """Segment-type (or language) embeddings; 0 = none."""
    norm: Literal["layer", "rms"] = "layer"
    """LayerNorm (arXiv 1607.06450) or RMSNorm (arXiv 1910.07467)."""
    eps: Annotated[float, Field(gt=0, le=0.1)] = 1e-5
    """Added to the variance in every norm."""
    norm_place: Literal["pre", "post"] = "pre"
    """pre: x + f(norm(x)); post: norm(x + f(x))."""
    final_norm: bool = True
    """A norm after the last layer of each stack."""
    emb_norm: bool = False
    """A norm after the embeddings of each stack."""
    activation: Activation = "gelu"
    """gelu is the exact one (erf), gelu_tanh its approximation."""
    gated: bool = False
    """Feed-forward = down(activation(gate(x)) * up(x)) instead of down(activation(up(x))) (arXiv 2002.05202)."""
    bias: BiasConfig = BiasConfig()
    """The projections that have a bias."""
    qk_scale: Annotated[float, Field(gt=0)] | None = None
    """Factor of the attention scores; null = head_dim ** -0.5; T5 has 1.0."""
    share: ShareConfig = ShareConfig()
    """Layers that use the same weights."""
    position: PositionConfig = PositionConfig()
    """The way in which a token's place enters the model."""
    emb_scale: bool = False
    """Token embeddings times sqrt(dim)."""
    out_scale: bool = False
    """Hidden states times dim ** -0.5 before the lm projection (T5 v1.0)."""
    dropout: DropoutConfig = DropoutConfig()
    """Dropout probabilities."""
    init: InitConfig = InitConfig()
    """Initial weights."""
    init_from: Path | None = None
    """Run directory, or folder of a published or imported model, whose weights the model begins with: all of the body,
    and of the heads those that are there. null = initial weights."""
    heads: dict[str, Annotated[HeadConfig, BeforeValidator(_long_form), PlainSerializer(_short_form)]]
    """Pretraining heads, files of model/heads, each with the weight of its loss: {masked_lm: 1.0}; the long form is
    {masked_lm: {weight: 1.0, normalise: row}}."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate a mapping by the class of the family that it names."""
        schema, shared = handler(source), cls.__base__ is object
        return core_schema.no_info_wrap_validator_function(_of_family, schema) if shared else schema

    def __post_init__(self) -> None:
        checks = (self._unknown_parts, self._unread_keys, self._wrong_attention, self._wrong_embedding)
        for check in (*checks, self._wrong_share):
            if problem := check():
                raise ValueError(problem)

    def _unknown_parts(self) -> str:
        families, heads = _families(), names("model.heads")
        if self.family not in families:
            return f"family: expected one of {', '.join(families)}, got '{self.family}'"
        if unknown := [name for name in self.heads if name not in heads]:
            return f"heads: expected names among {', '.join(heads)}, got '{unknown[0]}'"
        if not self.heads:
            return f"heads: expected at least one of {', '.join(heads)} with its weight, got none"
        if self.decoder_layers is not None and self.architecture != "encoder_decoder":
            return f"decoder_layers: only an encoder_decoder has them; remove the key or change family '{self.family}'"
        return ""

    def _unread_keys(self) -> str:
        for name, head in self.heads.items():
            read = find("model.heads", name).settings
            if unread := sorted(_changed_keys(head).keys() - read):
                return f"heads.{name}.{unread[0]}: the head {name} does not read this key; it reads " + ", ".join(
                    sorted({"weight", *read})
                )
        return ""

    def _wrong_attention(self) -> str:
        if self.head_dim is None and self.dim % self.attention_heads:
            return (
                f"attention_heads: {self.attention_heads} heads do not divide dim {self.dim}; "
                "change either, or give head_dim"
            )
        if self.attention_heads % self.key_value_heads:
            return f"kv_heads: expected a divisor of attention_heads {self.attention_heads}, got {self.kv_heads}"
        if self.position.kind == "rope" and self.head_width % 2:
            return f"position.kind: rope rotates pairs, so head_dim must be even, got {self.head_width}"
        return ""

    def _wrong_embedding(self) -> str:
        if self.position.kind == "sinusoidal" and self.embedding_width % 2:
            return f"position.kind: sinusoidal needs an even embedding width, got {self.embedding_width}"
        if self.tied and self.output_width != self.embedding_width:
            return (
                f"out_dim: a projection tied to embeddings of width {self.embedding_width} cannot read {self.out_dim}; "
                "set tied to false, or remove out_dim"
            )
        return ""

    def _wrong_share(self) -> str:
        share, depths = self.share, {self.layers, self.decoder_depth}
        if share.stacks and (self.architecture != "encoder_decoder" or len(depths) > 1):
            return (
                "share.stacks: expected an encoder_decoder with as many layers in both stacks, got a model of family "
                f"{self.family} with layers {self.layers} and decoder_layers {self.decoder_layers}"
            )
        for depth in depths:
            if depth % share.group_layers:
                return f"share.group_layers: expected a divisor of the {depth} layers, got {share.group_layers}"
            if (share.groups or 1) > depth // share.group_layers:
                return f"share.groups: expected at most {depth // share.group_layers}, got {share.groups}"
        return ""

    @property
    def architecture(self) -> str:
        """The family's architecture: encoder, decoder or encoder_decoder."""
        architecture: str = find("model.families", self.family).architecture
        return architecture

    @property
    def targets(self) -> dict[str, str]:
        """Return the target of each head, as objectives name it."""
        return {name: find("model.heads", name).target for name in self.heads}

    @property
    def head_weights(self) -> dict[str, float]:
        """The factor of each head's mean loss."""
        return {name: head.weight for name, head in self.heads.items()}

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.head_dim or self.dim // self.attention_heads

    @property
    def key_value_heads(self) -> int:
        """Number of key and value heads."""
        return self.kv_heads or self.attention_heads

    @property
    def decoder_depth(self) -> int:
        """Layers of an encoder_decoder's decoder."""
        return self.decoder_layers or self.layers

    @property
    def embedding_width(self) -> int:
        """Width of the embedding tables."""
        return self.emb_dim or self.dim

    @property
    def output_width(self) -> int:
        """Width of the states that masked_lm heads project onto the vocabulary."""
        return self.out_dim or self.embedding_width

    @property
    def layer_groups(self) -> int:
        """Sets of weights in the first stack."""
        return self.share.groups or self.layers // self.share.group_layers
