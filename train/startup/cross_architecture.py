"""Weights of a model for one of another architecture, such as an encoder for an encoder-decoder (arXiv 1907.12461)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig

_STACKS: Final = {"encoder": ("stack",), "decoder": ("stack",), "encoder_decoder": ("encoder", "decoder")}
"""Families of plain stacks, by the names of theirs."""
_CAUSAL: Final = {("decoder", "stack"), ("encoder_decoder", "decoder")}
_FREE: Final = frozenset(
    {"family", "decoder_layers", "decoder_dim", "decoder_attention_heads", "decoder_ffn_dim", "connector"}
    | {"connector.hidden_dim", "share.groups", "share.stacks"}
)
_CONNECTOR: Final = "family.connector."


@dataclass(frozen=True)
class Translated:
    """A source as a model of another architecture reads it."""

    config: ModelConfig
    """of the stack that is compared"""
    tensors: dict[str, Tensor]
    """by the names of the model; those that it has no place for keep theirs"""
    free: frozenset[str] = frozenset()
    """keys of the configuration that may differ"""
    lacking: tuple[str, ...] = ()
    """beginnings of names that the source need not have"""
    dropped: frozenset[str] = frozenset()
    """tensors of the source that the model has no place for"""


def translate(here: ModelConfig, there: ModelConfig, tensors: Mapping[str, Tensor]) -> Translated:
    """Return the tensors of a model under the names of another.

    A model of one stack fills the encoder of an encoder-decoder, and its decoder where that has the same widths and
    heads: layer by layer as many as both have, all but the attention to the encoder and a connector, which are new. An
    encoder-decoder gives its encoder to an encoder, its decoder to a decoder. An encoder and a decoder have the same
    parameters. A table of T5's relative distances is new where the direction is another, in which its rows mean others.

    Args:
        here: configuration of the model.
        there: that of the source.
        tensors: parameters of the source by name.

    Raises:
        ConfigurationError: one of two families is not made of plain stacks, or an adapter is to be trained beside it.
    """
    if here.family == there.family or not {here.family, there.family} <= _STACKS.keys():
        return Translated(there, dict(tensors))
    if here.adapter is not None:
        raise ConfigurationError(
            f"model.adapter: an adapter needs a model of its own family, got {there.family} for {here.family}: train "
            "without it, and adapt that run"
        )
    source = "decoder" if (here.family, there.family) == ("decoder", "encoder_decoder") else _STACKS[there.family][0]
    of = there.decoder if source == "decoder" else there
    targets = [name for name in _STACKS[here.family] if name != "decoder" or _has_same_widths(here.decoder, of)]
    renamed, dropped, prefix = {}, set(), f"family.{source}."
    for name, tensor in tensors.items():
        if not name.startswith(tuple(f"family.{stack}." for stack in _STACKS[there.family])):
            renamed[name] = tensor
            if name.startswith(_CONNECTOR):
                dropped.add(name)
            continue
        rest = name.removeprefix(prefix)
        stacks = [stack for stack in targets if rest != name and _has_parameter(here, stack, rest)]
        if of.position.kind == "t5" and rest.startswith("position."):
            causal = (there.family, source) in _CAUSAL
            stacks = [stack for stack in stacks if ((here.family, stack) in _CAUSAL) == causal]
        renamed |= {f"family.{stack}.{rest}": tensor for stack in stacks}
        if not stacks:
            renamed[name] = tensor
            dropped.add(name)
    lacking: tuple[str, ...] = ("family.decoder.", _CONNECTOR) if here.family == "encoder_decoder" else ()
    if of.position.kind == "t5":
        lacking += tuple(f"family.{stack}.position." for stack in _STACKS[here.family])
    return Translated(replace(of, family=there.family), renamed, _FREE, lacking, frozenset(dropped))


def _has_same_widths(decoder: ModelConfig, source: ModelConfig) -> bool:
    """Return whether a decoder's layers compute as those of the source do."""
    ours, theirs = ((stack.dim, stack.attention_heads, stack.ffn_dim) for stack in (decoder, source))
    return ours == theirs


def _has_parameter(here: ModelConfig, stack: str, rest: str) -> bool:
    """Return whether a stack takes a parameter: a decoder beside an encoder those of layers that are its own."""
    part, _, inner = rest.partition(".")
    if part != "layers" or ".cross." in rest:
        return ".cross." not in rest
    own = not here.share.stacks and int(inner.partition(".")[0]) < here.decoder_depth
    return stack != "decoder" or own
