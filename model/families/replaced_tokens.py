"""A generator and a discriminator: ELECTRA (arXiv 2003.10555), COCO-LM (arXiv 2102.08473)."""

from collections.abc import Mapping, Set
from dataclasses import asdict, fields, replace
from typing import ClassVar, Literal

import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.columns import LABEL_IDS, LABEL_INDEX, SAMPLE_WORDS
from clozeline.configuration.config import config_class
from clozeline.model.configuration.capabilities import COMPARED_LAYERS
from clozeline.model.configuration.head import module_name
from clozeline.model.configuration.key_types import Depth, Width
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.decoding.sampling import draw
from clozeline.model.families import HeadInput
from clozeline.model.families.encoder import Encoder
from clozeline.model.heads import Head
from clozeline.model.layers.stack import Stack
from clozeline.model.loss import at_labels
from clozeline.model.parameters.initial_values import Draw, constant

_STACK = "family.stack."
_GENERATOR = "family.generator."
_SHARED = (
    *("family.tokens.", "family.languages."),
    *(f"{_STACK}{name}." for name in ("position", "embeddings.types", "embeddings.norm")),
)


@config_class
class GeneratorConfig:
    """Sizes of the generator; all other keys are those of the discriminator."""

    layers: Depth
    """Layers of the stack."""
    dim: Width
    """Width of the residual stream; if it is not that of the embeddings, a projection follows
    them."""
    attention_heads: Width
    """Heads of each attention, a divisor of dim."""
    ffn_dim: Width
    """Inner width of the feed-forward block."""


class ReplacedTokens(Encoder):
    """An encoder of rows in which a second, smaller encoder has replaced the labeled tokens.

    The generator predicts the labels, which the head with the target masked_lm learns. Tokens drawn
    from its distribution then replace the tokens at all labels, and every other head reads the
    discriminator's states of that row. No gradient passes through the draw. Without `sample_words`
    in a batch, both read the same row.

    Example (labels 1 chef, 4 meal; drawn chef, lunch):
        input          [CLS] [MASK] cooked the [MASK] [SEP]
        discriminator  [CLS] chef cooked the lunch [SEP]
    """

    reads = (*Encoder.reads, SAMPLE_WORDS, LABEL_INDEX, LABEL_IDS)
    generator_targets = frozenset({"masked_lm"})
    layered = False
    stacks: ClassVar = {}
    prevents: ClassVar = {COMPARED_LAYERS}
    universal = False

    @config_class
    class Options(ModelConfig):
        """Configuration of the discriminator and of its generator."""

        generator: GeneratorConfig
        """The generator's sizes."""
        embedding_sharing: Literal["all", "disentangled"] = "all"
        """all: both share token, position and type embeddings and their norm (ELECTRA), but not
        relative positions. disentangled: the discriminator adds its own table to the generator's
        token embeddings, to which it gives no gradient; nothing else is shared (DeBERTa-v3, arXiv
        2111.09543)."""

        def __post_init__(self) -> None:
            super().__post_init__()
            generating = [head for head, target in self.targets.items() if target == "masked_lm"]
            if len(generating) != 1 or len(self.heads) < 2:
                raise ValueError(
                    "heads: expected masked_lm, which trains the generator, and one or more heads "
                    f"of the discriminator, such as token; got {', '.join(self.heads)}; to "
                    "fine-tune the discriminator, export the run, and fine-tune its folder "
                    "discriminator"
                )

            if self.generator.dim % self.generator.attention_heads:
                raise ValueError(
                    f"generator.attention_heads: generator.dim {self.generator.dim} is not a "
                    f"multiple of {self.generator.attention_heads} heads; change either"
                )

            if any(getattr(self, key) != size for key, size in asdict(self.generator).items()):
                # all other keys are the discriminator's, which the generator's sizes may not allow
                try:
                    generator_config(self)
                except ValidationError as error:
                    problem = error.errors()[0]["msg"].removeprefix("Value error, ")
                    raise ValueError(f"generator: {problem}") from error

            if (
                self.embedding_sharing == "disentangled"
                and "corrective" in self.targets.values()
                and self.tied
            ):
                raise ValueError(
                    "embedding_sharing: disentangled keeps the discriminator's gradient from the "
                    "token embeddings, but the head corrective is tied to them; set "
                    "embedding_sharing to all, or tied to false"
                )

    def __init__(self, config: Options, rows: int) -> None:
        super().__init__(config, rows)
        self.generator_sizes = generator_config(config)
        self.generator = Stack(self.generator_sizes, self.generator_sizes.layers)

        # tied by sharing modules; the difference of the token tables starts at 0
        if config.embedding_sharing == "all":
            if config.position.kind == "learned":
                self.generator.position.table = self.stack.position.table
            self.generator.embeddings.types = self.stack.embeddings.types
            self.generator.embeddings.norm = self.stack.embeddings.norm
            self.difference = None
        else:
            self.difference = _Difference(rows, config.embedding_width)

    def forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        vectors = self.tokens(tensors["input_ids"])
        if self.difference is not None:
            vectors = vectors.detach() + self.difference(tensors["input_ids"])
        return self.read(self.stack, vectors, tensors)

    def sizes(self, target: str) -> ModelConfig:
        return self.generator_sizes if target in self.generator_targets else self.config

    def views(
        self, tensors: Mapping[str, Tensor], heads: Mapping[str, Head]
    ) -> Mapping[str, HeadInput]:
        """Return the generator's states for its head, and the discriminator's for the others."""
        generated = HeadInput(
            self.read(self.generator, self.tokens(tensors["input_ids"]), tensors), tensors
        )
        # the discriminator reads tokens that are drawn from the generator's scores
        (name,) = (name for name, head in heads.items() if head.target in self.generator_targets)
        if "sample_words" in tensors:
            tensors = {**tensors, "input_ids": _replace_tokens(generated, heads[name])}
        return {**dict.fromkeys(heads, HeadInput(self(tensors), tensors)), name: generated}

    @classmethod
    def parts(
        cls, config: ModelConfig, tensors: Mapping[str, Tensor]
    ) -> dict[str, tuple[ModelConfig, dict[str, Tensor]]]:
        """Return generator and discriminator as encoders with their heads and shared parameters."""
        assert isinstance(config, cls.Options)

        generating = {
            head for head, target in config.targets.items() if target in cls.generator_targets
        }
        shared = {name: tensor for name, tensor in tensors.items() if name.startswith(_SHARED)}
        generator = {
            name.replace(_GENERATOR, _STACK): tensor
            for name, tensor in tensors.items()
            if _GENERATOR in name
        }

        discriminator = {
            name: tensor
            for name, tensor in tensors.items()
            if not name.startswith((_GENERATOR, "heads."))
        }
        # the discriminator's token table is the sum of the shared table and its difference
        if (difference := discriminator.pop("family.difference.weight", None)) is not None:
            table = discriminator["family.tokens.weight"]
            discriminator["family.tokens.weight"] = table + difference

        generator_heads = {head for head in config.heads if head in generating}
        discriminator_heads = {head for head in config.heads if head not in generating}
        return {
            "generator": _extract_encoder(
                generator_config(config), shared | generator, tensors, generator_heads
            ),
            "discriminator": _extract_encoder(config, discriminator, tensors, discriminator_heads),
        }

    def flops(self, tokens: int, target_tokens: int) -> float:
        return super().flops(tokens, target_tokens) + self.generator.flops(tokens)


def generator_config(config: ReplacedTokens.Options) -> ModelConfig:
    """Return the configuration of the generator; its embeddings are the discriminator's width."""
    return replace(
        config,
        **asdict(config.generator),
        kv_heads=None,
        head_dim=None,
        emb_dim=config.embedding_width,
    )


def _extract_encoder(
    config: ModelConfig, body: Mapping[str, Tensor], tensors: Mapping[str, Tensor], heads: Set[str]
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Return one of the two models as an encoder with some of the heads."""
    shared = {field.name: getattr(config, field.name) for field in fields(ModelConfig)}
    encoder = ModelConfig(
        **shared | {"family": "encoder", "heads": {name: config.heads[name] for name in heads}}
    )
    prefixes = tuple(f"heads.{module_name(name)}." for name in heads)
    return encoder, {
        **body,
        **{name: tensor for name, tensor in tensors.items() if name.startswith(prefixes)},
    }


class _Difference(nn.Module):
    """A table that starts at zero and is added to another table."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, width))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        return {"weight": constant(0.0)}

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.weight)


@torch.no_grad()
def _replace_tokens(generated: HeadInput, head: Head) -> Tensor:
    """Return input ids [B, T] with a token drawn from the generator at each label.

    `sample_words` [N] holds an integer below 2^32 for each label. Its upper 24 bits are a fraction
    that is exact in fp32; the drawn token is where the cumulative distribution reaches it.
    """
    hidden, tensors = generated
    index = tensors["label_index"]
    fractions = (tensors["sample_words"] >> 8) * 2.0**-24
    scores = head.logits(hidden.flatten(0, 1).index_select(0, index)).float()
    # the clamp matters where scores are NaN
    drawn = draw(scores.softmax(-1), fractions).clamp(max=scores.shape[-1] - 1)
    return at_labels(tensors, drawn)
