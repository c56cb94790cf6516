"""The interface of model families: how stacks are combined into hidden states for the heads."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from clozeline.columns import BatchField
from clozeline.errors import BatchError, ConfigurationError
from clozeline.model.configuration.capabilities import Declared
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads import Head
from clozeline.model.layers.cache import Cache

Architecture: TypeAlias = Literal["encoder", "decoder", "encoder_decoder"]
"""Shapes of batches, as shards declare them: a bidirectional row, a causal row, or a row and its
target."""


class HeadInput(NamedTuple):
    """The hidden states that a head reads, and the batch they were computed from."""

    hidden: Tensor
    """hidden states [B, T, dim]"""
    tensors: Mapping[str, Tensor]
    """the batch, with the inputs of these states"""


class ModelFamily(Declared, nn.Module, ABC):
    """A token table and stacks that turn a batch into hidden states for the heads."""

    Options: ClassVar[type[ModelConfig]] = ModelConfig
    architecture: ClassVar[Architecture]
    """Type of data that it can be trained on; several families may share one."""
    reads: ClassVar[tuple[BatchField, ...]]
    """Tensors that it reads from a batch."""
    optional: ClassVar[tuple[BatchField, ...]] = ()
    """Optional tensors of a batch that it reads, in addition to those of every family of its
    architecture."""
    generator_targets: ClassVar[frozenset[str]] = frozenset()
    """Targets whose heads read a generator; the other heads read rows in which generated tokens
    replace the labeled ones. Empty: there is no generator."""
    reads_characters: ClassVar[bool] = False
    """Whether tokens enter as characters, so that the model needs the bytes of each token."""
    unsupported: ClassVar[Mapping[str, str]] = {}
    """Tensors of batches that it would misread: by name, what it expects, and what to do."""
    read_keys: ClassVar[frozenset[str]] = frozenset(
        (
            "vocab_multiple",
            "init_from",
            "init",
            "adapter",
            "quantization",
            "position.maximum",
            "head_dim",
            "emb_dim",
            "out_dim",
            "tied",
            "out_scale",
            "final_logit_softcapping",
            "norm",
            "eps",
            "activation",
            "gated",
            "ffn_norm",
            "qk_scale",
            "bias",
            "dropout",
        )
    )
    """Keys of `ModelConfig` that it reads, besides sizes, or their groups; by default those of the
    parts around attention. Any other must have its default. "*": all, as a `Stack` does."""
    fixed: ClassVar[Mapping[str, object]] = {}
    """Keys with the only value that they may have, where it is not the default."""
    stacks: ClassVar[Mapping[str, bool]] = {}
    """Its standard stacks by attribute, and whether each is causal. They have the same parameters
    as those of other families. Empty: its layers are of its own."""
    config: ModelConfig
    """Configuration of the stack that `forward` reads."""
    left_padding: ClassVar[bool] = False
    """Whether rows may be padded on the left, as `left_padding` [B] of a batch says."""
    layered: ClassVar[bool] = False
    """Whether all heads read the last of `layer_states`, so that a head may read a mix of all
    layers instead."""
    universal: ClassVar[bool] = False
    """Whether all its layers are in one stack, which `share.universal` may repeat."""
    tokens: nn.Embedding
    """The token table [rows, emb_dim]."""

    @property
    def aligned_by(self) -> nn.Module | None:
        """What outputs the weight [B, T, S] of each source token, where one attention has it."""
        return None

    @property
    def device(self) -> torch.device:
        """The device of its parameters."""
        return next(self.parameters()).device

    @abstractmethod
    def forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return hidden states [B, T, dim] of the rows that carry the labels."""

    @classmethod
    def reads_key(cls, key: str) -> bool:
        """Return whether it reads a key, such as `bias.qkv`, or the group that has it."""
        return not cls.read_keys.isdisjoint(("*", key, key.partition(".")[0]))

    def refuse_unsupported(self, tensors: Mapping[str, Tensor]) -> None:
        """Raise BatchError for a tensor that the family would misread."""
        for name, expected in self.unsupported.items():
            if name in tensors:
                raise BatchError(f"batch: {name}: {expected}")

    def sizes(self, target: str) -> ModelConfig:
        """Return the configuration of the stack that heads of this target read."""
        return self.config

    @classmethod
    def parts(
        cls, config: ModelConfig, tensors: Mapping[str, Tensor]
    ) -> dict[str, tuple[ModelConfig, dict[str, Tensor]]]:
        """Return the separate models in a trained one by name, with their parameters.

        Empty: it is a single model.
        """
        return {}

    def views(
        self, tensors: Mapping[str, Tensor], heads: Mapping[str, Head]
    ) -> Mapping[str, HeadInput]:
        """Return what each head reads, by the head's name."""
        return dict.fromkeys(heads, HeadInput(self(tensors), tensors))

    def find_body(self, purpose: str) -> Any:
        """Return the module whose `layers` turn embeddings into the states that heads read.

        `purpose` starts the message of an error.

        Raises:
            ConfigurationError: the family is not a single stack of equal layers.
        """
        body = getattr(self, "stack", self)
        # DeBERTa's convolution and mask decoder make two layers different
        disentangled = self.config.position.disentangled
        special = disentangled is not None and disentangled.special_layers
        if (
            not self.layered
            or not isinstance(getattr(body, "layers", None), nn.ModuleList)
            or special
        ):
            raise ConfigurationError(
                f"{purpose}: expected one stack of equal attention layers, such as those of the "
                "families encoder, decoder and mobilebert, without DeBERTa's convolution and mask "
                f"decoder; got the family {self.config.family}"
            )

        if self.config.share.universal:
            raise ConfigurationError(
                f"{purpose}: expected layers that read the states alone, got "
                "model.share.universal, which adds a signal at each step"
            )

        return body

    def apply_final_norm(self, states: Tensor) -> Tensor:
        """Return states [B, T, dim] of any layer as heads read the last: after the norm, if any."""
        stack: Any = getattr(self, "stack", None)
        return states if stack is None else stack.dropout(stack.norm(states))

    def layer_states(self, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the states [B, T, dim] of the embeddings, then of every layer."""
        expected = (
            f"expected a family whose layers have states of all tokens, got {type(self).__name__}"
        )
        raise ConfigurationError(f"model.family: {expected}")

    def decode(self, tensors: Mapping[str, Tensor], cache: Cache | None) -> Tensor:
        """Return the states [B, n, dim] of tokens that a batch adds to the rows of a cache."""
        raise ConfigurationError(
            "model.family: generation needs a family with a causal stack, got "
            f"{type(self).__name__}; train a decoder or an encoder_decoder"
        )

    def set_token_bytes(self, token_bytes: Sequence[bytes], special_ids: Mapping[str, int]) -> None:
        """Store the UTF-8 bytes of each token; only families that read characters need them."""

    @abstractmethod
    def flops(self, tokens: int, target_tokens: int) -> float:
        """Return the forward FLOPs of one row, without heads; of each, for arrays of lengths."""

    def label_flops(self, tokens: int) -> float:
        """Return the FLOPs that each labeled position adds to `flops`, for a row of `tokens`."""
        return 0.0
