"""Prefix-tuning (arXiv 2101.00190): learned keys and values before those of each row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.adapters._adapter import Adapter, AdapterOptions, LearnedVectors, Undo
from clozeline.model.configuration.key_types import Width
from clozeline.model.families import ModelFamily
from clozeline.model.layers.attention import Attention
from clozeline.model.layers.disentangled import DisentangledAttention
from clozeline.model.layers.masks import AttentionPlan
from clozeline.model.layers.relative import RelativeAttention
from clozeline.model.layers.stack import Stack
from clozeline.model.parameters.initial_values import Draw, constant

_OTHER_SCORES: Final = (DisentangledAttention, RelativeAttention)
"""Attention whose scores depend on the distance to a key, which a prefix does not have."""


class Prefix(Adapter):
    """Every position also attends to `length` learned keys and values in each self-attention.

    The keys are not rotated, and their T5 distance scores are 0. An attention has 2 x length x
    (width of keys) parameters. With `hidden`, they are computed during training from fewer
    parameters: [length, dim], a linear map onto `hidden` features, tanh, and a linear map for each
    attention.
    """

    options: Options

    @config_class
    class Options(AdapterOptions):
        """Configuration of a prefix."""

        length: Annotated[int, Field(ge=1, le=2**16)] = 10
        """Number of learned keys and values per attention."""
        hidden: Width | None = None
        """Features from which keys and values are computed in training (512 and 800 in the paper);
        null = they are parameters."""

        def position_count(self, architecture: str) -> int:
            """Return by how many positions the prefix shifts a row: in a decoder, like tokens."""
            return self.length if architecture == "decoder" else 0

    def __init__(self, options: Options, family: ModelFamily) -> None:
        super().__init__(options, family)
        attentions = {
            path: module
            for path, module in family.named_modules()
            if isinstance(module, Attention)
            and type(module) is not Attention  # not cross-attention
        }

        relative = [
            type(module).__name__
            for module in family.modules()
            if isinstance(module, _OTHER_SCORES)
        ]
        if not attentions or relative:
            raise ConfigurationError(
                "model.adapter: prefix: expected a family with standard self-attention, "
                f"{type(family).__name__} has {relative[0] if relative else 'none'}: choose "
                "another adapter, such as lora"
            )

        self.shift = options.position_count(family.architecture)
        length = options.length
        hidden = options.hidden
        self.trunk = None if hidden is None else SharedPrefix(length, family.config.dim, hidden)
        parts: dict[str, nn.Module] = {}

        for path, attention in attentions.items():
            width = 2 * attention.key.out_features
            # with a trunk, each attention has a linear map of its features
            parts[path] = (
                LearnedVectors(length, width) if hidden is None else nn.Linear(hidden, width)
            )

        self.register_parts(parts)

    def apply_changes(self, family: ModelFamily) -> Iterator[Undo]:
        """Give each attention its prefix, and shift the positions of each stack."""
        for path in self.parts:
            attention = family.get_submodule(path)
            assert isinstance(attention, Attention)
            attention.prefix = partial(self._prepend, path, attention.head_dim)
            yield partial(setattr, attention, "prefix", None)
        for stack in family.modules():
            if isinstance(stack, Stack):
                stack.prefix_positions = self.shift
                yield partial(setattr, stack, "prefix_positions", None)

    def keys_and_values(self, path: str) -> Tensor:
        """Return the prefix of an attention: [length, 2 x width], keys before values."""
        part = self.parts[path]
        return part() if self.trunk is None else part(self.trunk())

    def _prepend(
        self,
        path: str,
        head_dim: int,
        key: Tensor,
        value: Tensor,
        queries: int,
        plan: AttentionPlan,
    ) -> tuple[Tensor, Tensor, AttentionPlan]:
        """Return keys, values [B, kv_heads, T, head_dim] and the plan, extended by the prefix."""
        rows = self.keys_and_values(path)
        # [length, 2 x width] to one [B, kv_heads, length, head_dim] for keys and one for values
        learned = rows.view(len(rows), 2, 1, -1, head_dim).permute(1, 2, 3, 0, 4).to(key.dtype)
        prefix_key, prefix_value = learned.expand(-1, len(key), -1, -1, -1)
        # the plan's mask, extended on the left by visible columns; None if everything is visible
        mask = plan.mask

        if plan.causal:
            mask = torch.ones(
                queries, len(rows) + key.shape[2], dtype=torch.bool, device=key.device
            ).tril(len(rows))
        elif mask is not None:
            mask = F.pad(mask, (len(rows), 0), value=True if mask.dtype == torch.bool else 0.0)

        plan = plan._replace(mask=mask, causal=False)
        return torch.cat((prefix_key, key), dim=2), torch.cat((prefix_value, value), dim=2), plan


class SharedPrefix(nn.Module):
    """The part of a computed prefix that all attentions share."""

    def __init__(self, length: int, dim: int, hidden: int) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.empty(length, dim))
        self.weight = nn.Parameter(torch.empty(hidden, dim))
        self.bias = nn.Parameter(torch.empty(hidden))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        return {"rows": usual, "weight": usual, "bias": constant(0.0)}

    def forward(self) -> Tensor:
        return torch.tanh(F.linear(self.rows, self.weight, self.bias))
