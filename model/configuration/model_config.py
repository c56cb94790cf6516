"""Configuration of a model: every size and every choice is a key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, GetCoreSchemaHandler, ValidatorFunctionWrapHandler
from pydantic_core import CoreSchema, core_schema

from clozeline.configuration.config import (
    HOME_EXPANDED,
    MayChange,
    OnlyTraining,
    adapter_of,
    config_class,
)
from clozeline.configuration.described_keys import Common
from clozeline.configuration.named_algorithms import IsName
from clozeline.model.configuration.head import Heads
from clozeline.model.configuration.key_types import Activation, Depth, Width
from clozeline.model.configuration.layer import (
    BiasConfig,
    ConnectorConfig,
    DropoutConfig,
    InitConfig,
    ShareConfig,
)
from clozeline.model.configuration.position import LocalConfig, PositionConfig
from clozeline.model.registries import FAMILIES, HEADS, AdapterComponent

Quantization = Literal["int8", "int8_dynamic", "int4"]


def _validate_for_family(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    if isinstance(value, Mapping) and FAMILIES.is_known(str(value.get("family"))):
        options = FAMILIES.load_class(value["family"]).Options
        if options is not ModelConfig:  # as JSON, in which a list is strictly a tuple
            return adapter_of(options).validate_json(json.dumps(value, default=str), strict=True)
    return validate(value)


def _diff_keys(value: object, default: object, name: str) -> Iterator[str]:
    if is_dataclass(value) and is_dataclass(default):
        for part in fields(value):
            yield from _diff_keys(
                getattr(value, part.name), getattr(default, part.name, None), f"{name}.{part.name}"
            )
    elif value != default:
        yield name


@config_class
class ModelConfig:
    """A Transformer (arXiv 1706.03762), assembled from parts.

    A family with further keys declares a subclass as its `Options`; a mapping that names such a
    family is validated as that subclass.
    """

    SHORTHAND_KEY: ClassVar = "size"

    family: Annotated[str, IsName(), Common()]
    """A file of model/families, for example encoder, decoder or encoder_decoder."""
    dim: Annotated[Width, Common()]
    """Width of the residual stream."""
    layers: Annotated[Depth, Common()]
    """Layers of the (encoder) stack."""
    decoder_layers: Depth | None = None
    """encoder_decoder: layers of the decoder; null = layers."""
    decoder_dim: Width | None = None
    """encoder_decoder: width of the decoder's residual stream; null = dim. A width other than dim
    needs a connector."""
    connector: ConnectorConfig | None = None
    """encoder_decoder: projection of the encoder's states for the decoder: {} or {hidden_dim: 512};
    null = none."""
    decoder_attention_heads: Width | None = None
    """encoder_decoder: query heads of the decoder; null = attention_heads."""
    decoder_ffn_dim: Width | None = None
    """encoder_decoder: inner width of the decoder's feed-forward block; null = ffn_dim."""
    attention_heads: Annotated[Width, Common()]
    """Query heads of each attention."""
    kv_heads: Width | None = None
    """Key and value heads, a divisor of attention_heads (arXiv 2305.13245); null =
    attention_heads."""
    head_dim: Width | None = None
    """Width of one head; null = dim / attention_heads."""
    ffn_dim: Annotated[Width, Common()]
    """Inner width of the feed-forward block."""
    emb_dim: Width | None = None
    """Width of the embedding tables; if it is not dim, a projection follows them; null = dim."""
    out_dim: Width | None = None
    """Width of the masked_lm heads' states before the projection; null = the width of the
    embeddings. If tied, separate columns read the features after the first emb_dim (arXiv
    2004.02984)."""
    tied: bool = True
    """The output projection of the heads is the token embedding."""
    vocab_multiple: OnlyTraining[Annotated[int, Field(ge=1, le=4096)]] = 1
    """Embedding rows are padded to a multiple of this; padding rows are never predicted and have no
    loss."""
    type_vocab_size: Annotated[int, Field(ge=0, le=4096)] = 0
    """Segment-type embeddings; 0 = none."""
    languages: Annotated[int, Field(ge=0, le=256)] = 0
    """encoder: language embeddings, added to those of the tokens (arXiv 1901.07291); 0 = none."""
    norm: Literal["layer", "rms", "rms_one"] = "layer"
    """LayerNorm (arXiv 1607.06450), RMSNorm (arXiv 1910.07467), or RMSNorm with the gain 1 + weight
    (Gemma)."""
    eps: Annotated[float, Field(gt=0, le=0.1)] = 1e-5
    """Added to the variance in every norm."""
    norm_place: Literal["pre", "post", "both", "branch"] = "pre"
    """pre: x + f(norm(x)); post: norm(x + f(x)); both: x + norm(f(norm(x))) (Gemma 2); branch: x +
    norm(f(x)) (OLMo 2)."""
    parallel: Literal["two_norms", "one_norm"] | None = None
    """Attention and feed-forward block read the same states: x + attention(norm(x)) +
    feed_forward(norm(x)), each with its own norm (GPT-NeoX, arXiv 2204.06745) or with one for both
    (Phi); null = sequentially."""
    first_norm: bool = True
    """pre, both: a norm before the attention of layer 0; ModernBERT has none, because its
    embeddings are normalized."""
    final_norm: bool = True
    """A norm after the last layer of each stack."""
    emb_norm: bool = False
    """A norm after the embeddings of each stack."""
    activation: Activation = "gelu"
    """gelu is exact (erf), gelu_tanh its approximation; relu_squared is Primer's (arXiv
    2109.08668)."""
    gated: bool = False
    """Feed-forward = down(activation(gate(x)) * up(x)) instead of down(activation(up(x))) (arXiv
    2002.05202)."""
    ffn_norm: bool = False
    """A norm inside the feed-forward block, before down, instead of one after it (LTG-BERT, arXiv
    2303.09859)."""
    bias: BiasConfig = BiasConfig()
    """Projections that have a bias."""
    qk_scale: Annotated[float, Field(gt=0)] | None = None
    """Factor of the attention scores; null = (head_dim x types of scores that are added) ** -0.5;
    T5 has 1.0."""
    qk_norm: Literal["head", "all"] | None = None
    """Norm of queries and of keys before their rotation: head, over the components of a head, with
    one gain for all heads (Qwen 3); all, over the entire projection (OLMo 2); null = none."""
    attn_logit_softcapping: Annotated[float, Field(gt=0)] | None = None
    """Bound c of the attention scores: s becomes c tanh(s / c) before the mask (Gemma 2, arXiv
    2408.00118). It keeps the scores of all pairs of positions in memory. null = unbounded."""
    final_logit_softcapping: Annotated[float, Field(gt=0)] | None = None
    """The same bound for the scores of heads over the vocabulary; null = unbounded."""
    share: ShareConfig = ShareConfig()
    """Layers that share weights."""
    scale_by_depth: bool = False
    """Scores of layer i, from 0, are also divided by i + 1 (GPT-2's
    scale_attn_by_inverse_layer_idx)."""
    local: LocalConfig | None = None
    """Layers whose attention sees a window; null = every layer sees the entire row."""
    position: PositionConfig = PositionConfig()
    """Position information."""
    emb_scale: bool = False
    """Token embeddings times sqrt(dim), before positions are added. Set it with `position.kind:
    sinusoidal`, as in arXiv 1706.03762: sines have a size of 0.7, new embeddings of 0.02."""
    out_scale: bool = False
    """Hidden states times dim ** -0.5 before the lm projection (T5 v1.0)."""
    dropout: Annotated[DropoutConfig, Common()] = DropoutConfig()
    """Dropout probabilities."""
    init: InitConfig = InitConfig()
    """Initial weights."""
    init_from: Annotated[
        OnlyTraining[MayChange[Annotated[Path, HOME_EXPANDED] | None]], Common()
    ] = None
    """Run directory or model folder, published or imported, whose weights the model starts from:
    the entire body, and the heads that it has. A run's configuration also takes `hf://org/name`.
    null = random initialization."""
    adapter: Annotated[AdapterComponent | None, Common()] = None
    """A file of model/adapters with its keys: only its parameters train, and those of heads that
    `init_from` lacks. null = everything trains."""
    quantization: OnlyTraining[Quantization | None] = None
    """Quantization-aware training: the linear maps of the body compute with weights rounded to int8
    or int4; int8_dynamic also rounds their inputs. null = off."""
    heads: Annotated[Heads, Common()]
    """Pretraining heads, files of model/heads, each with the weight of its loss: {masked_lm: 1.0};
    the long form is {masked_lm: {weight: 1.0, normalize: row}}."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema = handler(source)
        shared = cls.__base__ is object
        return (
            core_schema.no_info_wrap_validator_function(_validate_for_family, schema)
            if shared
            else schema
        )

    def __post_init__(self) -> None:
        for check in (
            self._name_problems,
            self._attention_problems,
            self._position_problems,
            self._share_problems,
            self._family_problems,
        ):
            for problem in check():
                raise ValueError(problem)

    def _name_problems(self) -> Iterator[str]:
        # unknown or missing names
        if not FAMILIES.is_known(self.family):
            yield f"family: {FAMILIES.explain_unknown_name(self.family)}"
        if not self.heads:
            known = ", ".join(HEADS.available())
            yield f"heads: expected one of {known} with its weight, or several, got none"
        # keys that another architecture has
        for key in (
            "decoder_layers",
            "decoder_dim",
            "decoder_attention_heads",
            "decoder_ffn_dim",
            "connector",
        ):
            if getattr(self, key) is not None and self.architecture != "encoder_decoder":
                yield (
                    f"{key}: only an encoder_decoder has this key; remove it, or change family "
                    f"'{self.family}'"
                )

        if self.languages and self.architecture != "encoder":
            yield (
                "languages: only an encoder reads them; set it to 0, or change family "
                f"'{self.family}'"
            )

    def _family_problems(self) -> Iterator[str]:
        family = FAMILIES.load_class(self.family)
        for key, value in family.fixed.items():
            if (actual := attrgetter(key)(self)) != value:
                yield f"{key}: the family {self.family} needs {json.dumps(value)}, got {actual}"
        for field in fields(self):
            if field.name in ModelConfig.__annotations__ and field.default is not MISSING:
                for key in _diff_keys(getattr(self, field.name), field.default, field.name):
                    if key not in family.fixed and not family.reads_key(key):
                        yield f"{key}: the family {self.family} does not read this key; remove it"

    def _attention_problems(self) -> Iterator[str]:
        widths = {
            "attention_heads": self.dim,
            "decoder_attention_heads": self.decoder_dim or self.dim,
        }
        # of the encoder, then of the decoder
        for key, dim in widths.items():
            heads = getattr(self, key) or self.attention_heads
            if self.head_dim is None and dim % heads:
                yield (
                    f"{key}: dim {dim} is not a multiple of {heads} heads; change either, or set "
                    "head_dim"
                )

            if heads % (self.kv_heads or heads):
                yield f"kv_heads: expected a divisor of {key} {heads}, got {self.kv_heads}"
            width = self.head_dim or dim // heads
            share = self.position.partial_rotary_factor
            if self.position.kind == "rope" and share == 1 and width % 2:
                yield f"position.kind: rope rotates pairs, so head_dim must be even, got {width}"
            # the rotated components form pairs, which a fraction of a head may not allow
            if share != 1 and (int(width * share) < 2 or int(width * share) % 2):
                got = (
                    "expected 2 or another even number of rotated components, got "
                    f"{int(width * share)} of {width}"
                )
                yield f"position.partial_rotary_factor: {got}"

        if self.parallel is not None and (
            self.architecture == "encoder_decoder" or self.position.disentangled
        ):
            yield (
                "parallel: layers with cross-attention or disentangled attention are sequential; "
                "remove the key"
            )

        if self.parallel is not None and (self.norm_place != "pre" or not self.first_norm):
            yield "parallel: expected norm_place pre with first_norm; set them, or remove the key"
        if self.tied and self.init.head_std is not None:
            yield (
                "init.head_std: has no effect on a head that is tied to the token table: remove "
                "it, or set tied to false"
            )
        if self.decoder_dim not in (None, self.dim) and self.connector is None:
            yield (
                f"decoder_dim: a decoder of width {self.decoder_dim} cannot attend to states of "
                f"width {self.dim}: set connector to {{}}, which adds a projection between them, "
                "or remove decoder_dim"
            )

    def _position_problems(self) -> Iterator[str]:
        scaling = self.position.scaling
        kind = self.position.kind
        width = self.embedding_width
        # position vectors added to the embeddings, and the output projection
        if kind == "sinusoidal" and width % 2:
            yield f"position.kind: sinusoidal needs an even embedding width, got {width}"
        if self.tied and self.output_width < width:
            tied = f"a projection tied to embeddings of width {width} cannot read {self.out_dim}"
            yield f"out_dim: {tied}; set tied to false, or remove out_dim"
        # scaling of rotary positions
        if scaling is not None and scaling.kind == "dynamic" and self.rotated_width <= 2:
            yield f"position.scaling: dynamic needs head_dim 4 or more, got {self.head_width}"
        for key in (
            ("short_factor", "long_factor")
            if scaling is not None and scaling.kind == "longrope"
            else ()
        ):
            if (count := len(getattr(scaling, key))) != self.rotated_width // 2:
                expected = (
                    f"expected one divisor for each of {self.rotated_width // 2} pairs of "
                    f"components, got {count}"
                )
                yield f"position.scaling.{key}: {expected}"
        # what single layers do differently
        if self.local is not None and self.local.theta is not None and kind != "rope":
            yield (
                "local.theta: only rotary positions read it; remove the key, or change "
                f"position.kind '{kind}'"
            )

        listed = None if self.local is None else self.local.layer_types

        for depth in (self.layers, self.decoder_depth):
            if (last := max(self.position.nope_layers, default=0)) >= depth:
                yield (
                    f"position.nope_layers: expected layers from 0 to {depth - 1} of a stack, got "
                    f"{last}"
                )
            if listed is not None and depth != len(listed):
                yield (
                    f"local.layer_types: expected a type for each of the {depth} layers of a "
                    f"stack, got {len(listed)}"
                )

        if not self.first_norm and self.norm_place in ("post", "branch"):
            yield (
                "first_norm: only norm_place 'pre' and 'both' have a norm before the attention; "
                "remove the key"
            )
        # what disentangled attention cannot be combined with
        if (chosen := self.position.disentangled) is None:
            return
        if self.architecture != "encoder" or self.key_value_heads != self.attention_heads:
            yield (
                "position.disentangled: expected an encoder with as many kv_heads as "
                "attention_heads; remove the key"
            )

        shared = self.share != ShareConfig() or self.layers < chosen.special_layers
        for key in ("qk_norm", "scale_by_depth", "attn_logit_softcapping"):
            if getattr(self, key):
                yield f"{key}: disentangled attention does not read it; remove the key"
        if chosen.special_layers and (shared or self.norm_place != "post"):
            yield (
                "position.disentangled: convolution and mask_decoder each need an unshared layer, "
                "and norm_place post"
            )

    def _share_problems(self) -> Iterator[str]:
        share = self.share
        depths = {self.layers, self.decoder_depth}
        # the same layers in both stacks
        if share.stacks and (self.architecture != "encoder_decoder" or len(depths) > 1):
            yield (
                "share.stacks: expected an encoder_decoder whose stacks have the same number of "
                f"layers, got family {self.family} with layers {self.layers} and decoder_layers "
                f"{self.decoder_layers}"
            )
        # groups of layers
        for depth in depths:
            if depth % share.group_layers:
                yield (
                    f"share.group_layers: expected a divisor of the {depth} layers, got "
                    f"{share.group_layers}"
                )
            if (share.groups or 1) > depth // share.group_layers:
                most = depth // share.group_layers
                yield f"share.groups: expected at most {most}, got {share.groups}"

        if share.stacks and (
            self.decoder_dim or self.decoder_attention_heads or self.decoder_ffn_dim
        ):
            sizes = "decoder_dim, decoder_attention_heads, decoder_ffn_dim"
            yield f"share.stacks: both stacks have one size; remove {sizes}"

        if share != ShareConfig() and (self.scale_by_depth or not self.first_norm):
            yield (
                "share: a shared layer is used at several depths; remove scale_by_depth and "
                "first_norm"
            )

        yield from self._universal_problems() if share.universal else ()

    def _universal_problems(self) -> Iterator[str]:
        # one stack whose single layer repeats
        key = "share.universal"

        if not FAMILIES.load_class(self.family).universal:
            yield (
                f"{key}: expected a family of one stack whose layer can repeat, got {self.family}; "
                "remove the key"
            )

        if (self.share.groups, self.share.group_layers) != (1, 1):
            yield (
                f"{key}: expected share.groups 1 and share.group_layers 1, one layer for all steps"
            )

        if self.position.kind == "sinusoidal" and self.embedding_width != self.dim:
            yield (
                f"{key}: each step adds sinusoidal positions of width dim {self.dim}; remove "
                "emb_dim"
            )

    @property
    def architecture(self) -> str:
        """The family's architecture: encoder, decoder or encoder_decoder."""
        return FAMILIES.load_class(self.family).architecture

    @property
    def algorithms(self) -> Sequence[type]:
        """The classes of its family and heads."""
        heads = [HEADS.load_class(name) for name in self.heads]
        return [FAMILIES.load_class(self.family), *heads]

    @property
    def targets(self) -> dict[str, str]:
        """The target of each head, as objectives name it."""
        return {name: HEADS.load_class(name).target for name in self.heads}

    @property
    def head_weights(self) -> dict[str, float]:
        """The factor of each head's mean loss."""
        return {name: head.weight for name, head in self.heads.items()}

    @property
    def position_limit(self) -> int | None:
        """Positions of the table that a row can use; None: no limit."""
        limit = self.position.limit
        taken = (
            0 if self.adapter is None else self.adapter.options.position_count(self.architecture)
        )
        return None if limit is None else limit - taken

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.head_dim or self.dim // self.attention_heads

    @property
    def rotated_width(self) -> int:
        """Components of a head that rotary positions rotate."""
        return int(self.head_width * self.position.partial_rotary_factor)

    @property
    def key_value_heads(self) -> int:
        """Number of key and value heads."""
        return self.kv_heads or self.attention_heads

    @property
    def decoder_depth(self) -> int:
        """Layers of an encoder_decoder's decoder."""
        return self.decoder_layers or self.layers

    @property
    def decoder(self) -> ModelConfig:
        """The configuration of an encoder_decoder's decoder stack."""
        heads = self.decoder_attention_heads
        inner = self.decoder_ffn_dim
        return replace(
            self,
            layers=self.decoder_depth,
            dim=self.decoder_dim or self.dim,
            emb_dim=self.embedding_width,
            attention_heads=heads or self.attention_heads,
            ffn_dim=inner or self.ffn_dim,
        )

    def is_local(self, layer: int) -> bool:
        """Return whether a layer, from 0, sees only its window."""
        return self.local is not None and self.local.is_local(layer)

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
        """Number of different sets of weights in the first stack."""
        return self.share.groups or self.layers // self.share.group_layers
