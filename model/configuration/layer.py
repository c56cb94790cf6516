"""Configuration of layers and stacks: biases, dropout, initialization, sharing, connector."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from clozeline.configuration.config import OnlyTraining, config_class
from clozeline.configuration.unread_keys import refuse_unread_keys
from clozeline.model.configuration.key_types import Depth, Probability, Width


@config_class
class BiasConfig:
    """Biases of the projections of a layer."""

    qkv: bool = True
    """Queries, keys and values."""
    key: bool = True
    """Keys, if queries and values have one."""
    out: bool = True
    """The attention's output projection."""
    ffn: bool | Literal["down"] = True
    """The projections of the feed-forward block; down: only the last of them (MosaicBERT)."""
    norm: bool = True
    """Every LayerNorm; an RMSNorm never has one."""
    head: bool = True
    """The transform of the masked LM head."""


@config_class
class DropoutConfig:
    """Dropout probabilities in [0, 1)."""

    embedding: OnlyTraining[Probability] = 0.0
    """After the embeddings (and their norm)."""
    attention: OnlyTraining[Probability] = 0.0
    """Attention weights."""
    hidden: OnlyTraining[Probability] = 0.0
    """The output of each attention and feed-forward block, before it is added to the residual."""
    activation: OnlyTraining[Probability] = 0.0
    """Inside the feed-forward block, after the activation."""
    output: OnlyTraining[Probability] = 0.0
    """After the stack's final norm (T5)."""


@config_class
class InitConfig:
    """Initial weights. Biases are 0 and norm gains 1 in every scheme."""

    READS: ClassVar = {
        "normal": ("std", "embedding_std", "scale_residual", "residual_std", "by_depth"),
        "t5": (),
    }
    """Keys that only one of the schemes reads."""

    scheme: OnlyTraining[Literal["normal", "t5"]] = "normal"
    """normal: N(0, std) everywhere. t5: N(0, 1) embeddings, projections scaled by their fan (arXiv
    1910.10683)."""
    std: OnlyTraining[Annotated[float, Field(gt=0, le=10)]] = 0.02
    """Standard deviation of the normal scheme."""
    cutoff: OnlyTraining[Annotated[float, Field(ge=0.1)] | None] = None
    """Truncate at this many standard deviations; null = do not truncate."""
    embedding_std: OnlyTraining[Annotated[float, Field(gt=0, le=10)] | None] = None
    """Standard deviation of embedding tables in the normal scheme; null = std. XLM has dim **
    -0.5."""
    scale_residual: OnlyTraining[bool] = False
    """GPT-2: projections into the residual stream, and the transform of the masked LM head
    (ModernBERT), get std / sqrt(2 x layers)."""
    residual_std: OnlyTraining[Annotated[float, Field(gt=0, le=10)] | None] = None
    """Standard deviation of the projections into the residual stream, instead of scale_residual;
    null = std. GPT-NeoX has 2 / (layers x dim ** 0.5)."""
    head_std: OnlyTraining[Annotated[float, Field(gt=0, le=10)] | None] = None
    """Standard deviation of an untied projection onto the vocabulary; null = std, with t5 dim **
    -0.5. T5 of transformers has 1."""
    by_depth: OnlyTraining[bool] = False
    """The feed-forward weights of layer i, from 0, are scaled by (2 + 2 i) ** -0.5 (LTG-BERT, arXiv
    2303.09859)."""
    uniform: OnlyTraining[bool] = False
    """Draw from uniform distributions of the same deviations, within sqrt(3) of them."""

    def __post_init__(self) -> None:
        refuse_unread_keys(self, "scheme", self.READS)
        if self.uniform and self.cutoff is not None:
            raise ValueError("cutoff: has no effect with uniform: remove one of the two")
        if self.scale_residual and self.residual_std is not None:
            raise ValueError("scale_residual: has no effect with residual_std: remove one of them")


@config_class
class ShareConfig:
    """Layers that share weights."""

    groups: Depth | None = None
    """Sets of weights that the layers of a stack cycle through (arXiv 1909.11942); 1 = all layers
    share one, null = no sharing."""
    group_layers: Depth = 1
    """Layers per group, applied in order; a divisor of the layers of each stack."""
    stacks: bool = False
    """encoder_decoder: both stacks use the same layers; positions and cross-attention stay separate
    (arXiv 1910.10683)."""
    universal: Literal[True] | None = None
    """With groups 1: the layer is told its step by a signal (Universal Transformer, arXiv
    1807.03819); null = no signal."""

    def __post_init__(self) -> None:
        if self.groups is None and self.group_layers != 1:
            raise ValueError(
                "group_layers: has no effect without groups: set groups to the number of groups of "
                f"{self.group_layers} layers, or remove the key"
            )


@config_class
class ConnectorConfig:
    """The projection of encoder states for a decoder, which may have another width."""

    hidden_dim: Width | None = None
    """Inner width of two maps, with an activation between them and a norm after them; null = a
    single linear map."""
