"""Prompt-tuning (arXiv 2104.08691): learned vectors before the tokens of a row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.configuration.config import Natural, config_class
from clozeline.errors import ConfigurationError
from clozeline.model.adapters._adapter import Adapter, AdapterOptions, LearnedVectors, Undo
from clozeline.model.families import ModelFamily
from clozeline.model.layers.cache import Cache
from clozeline.model.layers.masks import PackedDocuments
from clozeline.model.layers.stack import Stack
from clozeline.model.parameters.initial_values import generator_for
from clozeline.model.parameters.sharding import UNSHARDED, Placement


class Prompt(Adapter):
    """Read `length` learned token vectors before each row; their states are cut off afterwards.

    In an encoder_decoder they precede the encoder's rows, and its decoder reads their states. They
    take the first positions of the table, before any padding on the left, and segment type 0;
    tokens follow. Each packed document of a row sees them; they do not see documents. A stack has
    length x embedding width parameters.
    """

    options: Options

    @config_class
    class Options(AdapterOptions):
        """Configuration of a prompt."""

        length: Annotated[int, Field(ge=1, le=2**16)] = 20
        """Number of learned vectors."""
        tokens: tuple[Natural, ...] = ()
        """Token ids whose vectors initialize the prompt, such as those of label words, repeated as
        needed; empty = random tokens of the vocabulary."""

        def position_count(self, architecture: str) -> int:
            return self.length

    def __init__(self, options: Options, family: ModelFamily) -> None:
        super().__init__(options, family)
        stacks = {
            path: module for path, module in family.named_modules() if isinstance(module, Stack)
        }
        # the decoder of an encoder_decoder reads the prompt's states from the encoder
        if family.architecture == "encoder_decoder":
            stacks.pop("decoder", None)
        if not stacks:
            raise ConfigurationError(
                "model.adapter: prompt: expected a family with standard stacks of layers, "
                f"{type(family).__name__} has none: choose another adapter, such as lora"
            )

        self.keeps_prompt_states = family.architecture == "encoder_decoder"
        self.register_parts(
            {path: LearnedVectors(options.length, family.tokens.embedding_dim) for path in stacks}
        )

    def initialize_from(
        self, family: ModelFamily, vocab_size: int, seed: int, placement: Placement = UNSHARDED
    ) -> None:
        length = self.options.length
        chosen = self.options.tokens
        if max(chosen, default=0) >= vocab_size:
            raise ConfigurationError(
                f"model.adapter.tokens: expected ids below {vocab_size}, got {max(chosen)}"
            )

        random = torch.randint(
            vocab_size, (length,), generator=generator_for(seed, "prompt tokens")
        ).tolist()
        ids = [chosen[index % len(chosen)] for index in range(length)] if chosen else random
        table = family.tokens.get_parameter("weight")

        for part in self.parts.values():
            rows = part.get_parameter("rows")
            with torch.no_grad(), placement.gather([table, rows]):
                rows.copy_(table[ids])

    def apply_changes(self, family: ModelFamily) -> Iterator[Undo]:
        for path, vectors in self.parts.items():
            stack = family.get_submodule(path)
            before = stack.forward
            stack.forward = partial(self._read, before, vectors)
            yield partial(setattr, stack, "forward", before)

    def _read(
        self,
        forward: Any,
        prompt: nn.Module,
        vectors: Tensor,
        positions: Tensor,
        types: Tensor | None,
        padding: Tensor | None,
        *,
        pairs: Tensor | None = None,
        prefix_length: Tensor | None = None,
        cache: Cache | None = None,
        documents: PackedDocuments | None = None,
    ) -> Tensor:
        """Return the states of the rows, after the prompt, from the inputs of the rows alone."""
        length = self.options.length
        positions = positions + length
        prefix_length = None if prefix_length is None else prefix_length + length
        continued = cache is not None and cache.columns > 0
        # at the first step, prepend the prompt to vectors, positions, types and masks
        if not continued:
            vectors = torch.cat(
                (prompt().to(vectors.dtype).expand(len(vectors), -1, -1), vectors), dim=1
            )
            first = torch.arange(length, device=positions.device).expand(len(positions), -1)
            positions = torch.cat((first, positions), dim=1)
            types = None if types is None else F.pad(types, (length, 0))
            padding = None if padding is None else F.pad(padding, (length, 0), value=True)
            if documents is not None:
                pairs = documents.mask() if pairs is None else documents.mask() & pairs
            # pairs [B or 1, 1, T, T]: every position sees the prompt, which sees only itself
            if pairs is not None:
                pairs = F.pad(pairs, (length, 0), value=True)
                prompt_pairs = pairs.new_zeros(*pairs.shape[:2], length, pairs.shape[3])
                prompt_pairs[..., :length] = True
                pairs = torch.cat((prompt_pairs, pairs), dim=2)

        hidden = forward(
            vectors,
            positions,
            types,
            padding,
            pairs=pairs,
            prefix_length=prefix_length,
            cache=cache,
        )

        return hidden if self.keeps_prompt_states or continued else hidden[:, length:]
