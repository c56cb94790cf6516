"""Initialize a model from another architecture, such as an encoder-decoder from an encoder (arXiv 1907.12461)."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig

_STACKS: Final = {"encoder": ("stack",), "decoder": ("stack",), "encoder_decoder": ("encoder", "decoder")}
"""Families of plain stacks, with the names of their stacks."""
_CAUSAL: Final = {("decoder", "stack"), ("encoder_decoder", "decoder")}
_FREE: Final = frozenset(
    {"family", "decoder_layers", "decoder_dim", "decoder_attention_heads", "decoder_ffn_dim", "connector"}
    | {"connector.hidden_dim", "share.groups", "share.stacks"}
)
_CONNECTOR: Final = "family.connector."


@dataclass(frozen=True)
class Translated:
    """A source under the names of a model of another architecture."""

    config: ModelConfig
    """of the stack to compare"""
    tensors: dict[str, Tensor]
    """by names of the model; those that it cannot use keep their names"""
    free: frozenset[str] = frozenset()
    """keys of the configuration that may differ"""
    lacking: tuple[str, ...] = ()
    """prefixes of names that the source may lack"""
    dropped: frozenset[str] = frozenset()
    """tensors that the model cannot use"""
    folder: Path = Path()
    """of the source"""
    notes: tuple[str, ...] = ()
    """tensors and keys of a published folder that the model does not have"""


def translate(here: ModelConfig, there: ModelConfig, tensors: Mapping[str, Tensor]) -> Translated:
    """Return the tensors of a model under the names of another.

    A model of one stack initializes the encoder of an encoder-decoder, and its decoder if widths and heads are equal:
    as many layers as both have, without cross-attention and connector, which are new. An encoder-decoder initializes an
    encoder from its encoder, a decoder from its decoder. An encoder and a decoder have the same parameters. T5's
    relative position table is new if the direction differs. A model with an adapter is refused.
    """
    if here.family == there.family or not {here.family, there.family} <= _STACKS.keys():
        return Translated(there, dict(tensors))
    if here.adapter is not None:
        raise ConfigurationError(
            f"model.adapter: an adapter needs a model of its own family, got {there.family} for {here.family}: train "
            "without it, and adapt that run"
        )
    # choose the source stack and the target stacks that can take it
    source = "decoder" if (here.family, there.family) == ("decoder", "encoder_decoder") else _STACKS[there.family][0]
    of = there.decoder if source == "decoder" else there
    widths = operator.attrgetter("dim", "attention_heads", "ffn_dim")
    targets = [name for name in _STACKS[here.family] if name != "decoder" or widths(here.decoder) == widths(of)]
    # rename the tensors of the stack; drop those that no target has
    renamed, dropped, prefix = {}, set(), f"family.{source}."
    for name, tensor in tensors.items():
        if not name.startswith(tuple(f"family.{stack}." for stack in _STACKS[there.family])):
            renamed[name] = tensor
            if name.startswith(_CONNECTOR):
                dropped.add(name)
            continue
        rest = name.removeprefix(prefix)
        stacks = [stack for stack in targets if rest != name and _has_parameter(here, stack, rest)]
        if of.position.kind == "t5" and f".{rest}".removesuffix(".table.weight").endswith(".position"):
            causal = (there.family, source) in _CAUSAL
            stacks = [stack for stack in stacks if ((here.family, stack) in _CAUSAL) == causal]
        renamed |= {f"family.{stack}.{rest}": tensor for stack in stacks}
        if not stacks:
            renamed[name] = tensor
            dropped.add(name)
    # names that may be missing in the source
    lacking: tuple[str, ...] = ("family.decoder.", _CONNECTOR) if here.family == "encoder_decoder" else ()
    if of.position.kind == "t5":
        parts = [f"layers.{n}.position." for n in range(here.layers)] if here.position.per_layer else ["position."]
        lacking += tuple(f"family.{stack}.{part}" for stack in _STACKS[here.family] for part in parts)
    return Translated(replace(of, family=there.family), renamed, _FREE, lacking, frozenset(dropped))


def _has_parameter(here: ModelConfig, stack: str, rest: str) -> bool:
    part, _, inner = rest.partition(".")
    if part != "layers" or ".cross." in rest:
        return ".cross." not in rest
    return stack != "decoder" or (not here.share.stacks and int(inner.partition(".")[0]) < here.decoder_depth)
