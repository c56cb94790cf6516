"""A stack of layers between embeddings and an optional final norm."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, Self

import numpy as np
import torch
from torch import Tensor, nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.cache import Cache
from clozeline.model.layers.disentangled import RelativeTable, build_layers
from clozeline.model.layers.documents import reads_documents
from clozeline.model.layers.masks import (
    AttentionPlan,
    PackedDocuments,
    plan_attention,
    plan_continuation,
    plan_source,
    prefix_mask,
    window_mask,
)
from clozeline.model.layers.norm import build_norm
from clozeline.model.layers.position import (
    Position,
    Sinusoidal,
    build_local_position,
    build_position,
)
from clozeline.model.layers.universal import add_step_signal
from clozeline.model.layers.vocabulary import Embeddings
from clozeline.model.parameters.flops import matrix_flops

LAYER: Final = re.compile(r"(?P<stack>.+)\.layers\.(?P<index>\d+)\.")
"""Start of the name of a layer's parameter or module."""


class Stack(nn.Module):
    """The stack of an encoder (no flag), a decoder (causal) or an encoder-decoder's (both flags).

    Some layers may be local: they have another attention plan, with a window and perhaps another
    rotation.
    """

    def __init__(
        self, config: ModelConfig, layers: int, *, causal: bool = False, cross: bool = False
    ) -> None:
        super().__init__()
        stack_position = build_position(config, causal)
        self.biased = stack_position.has_bias
        self.position = Position() if config.position.per_layer else stack_position
        self.embeddings = Embeddings(config)

        # layers with a window, without rotation, or with shared weights
        self.local_position = build_local_position(config, self.position)
        self.window = None if config.local is None else config.local.window
        self.local_layers = frozenset(number for number in range(layers) if config.is_local(number))
        self.nope_layers = frozenset(config.position.nope_layers)
        self.order = shared_layers(layers, config.share.groups, config.share.group_layers)
        self.layers = nn.ModuleList(build_layers(config, max(self.order) + 1, cross))
        if config.position.per_layer:
            for layer in self.layers:
                layer.position = build_position(config, causal)

        self.universal = config.share.universal
        self.relative = None if config.position.disentangled is None else RelativeTable(config)
        self.norm = build_norm(config, config.dim) if config.final_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout.output)
        self.causal = causal
        self.capped = config.attn_logit_softcapping is not None
        self.head_width = config.head_width
        self.attention_dropout = config.dropout.attention
        # positions that an attached prefix adapter takes; None: there is no prefix
        self.prefix_positions: int | None = None

    def forward(
        self,
        vectors: Tensor,
        positions: Tensor,
        types: Tensor | None,
        padding: Tensor | None,
        source: Tensor | None = None,
        source_visible: Tensor | None = None,
        pairs: Tensor | None = None,
        prefix_length: Tensor | None = None,
        cache: Cache | None = None,
        documents: PackedDocuments | None = None,
        source_documents: PackedDocuments | None = None,
    ) -> Tensor:
        """Return hidden states [B, T, dim].

        Args:
            vectors: token vectors [B, T, emb_dim].
            positions: position ids [B, T].
            types: segment-type ids [B, T], or None for all 0.
            padding: of this stack's rows, from `padding_mask`.
            source: the encoder's states [B, S, dim].
            source_visible: from `padding_mask`: positions of the encoder that each position sees.
            pairs: from `document_mask`, `mode_mask` or both, if rows restrict which positions see
                which.
            prefix_length: [B], if a causal stack reads the start of a row in both directions.
            cache: of the earlier tokens, if a causal stack continues rows; positions then count
                from the row's start.
            documents: packed documents that must not see each other; `pairs` need not repeat them.
            source_documents: documents of the encoder's rows, each read by the document of the same
                index in `documents`.
        """
        # columns [1 or B, Tk]: the positions of the keys, including those of a cache and a prefix
        columns = positions if cache is None else cache.extend(positions)
        if self.prefix_positions:
            positions = positions + self.prefix_positions
            columns = columns + self.prefix_positions

        x = self.embeddings(vectors, self.position, positions, types)
        prefix = None if prefix_length is None else prefix_mask(prefix_length, columns.shape[1])
        relative = None if self.relative is None else self.relative(positions)

        # packed documents: attention reads each of them separately, or a mask hides the others
        dropout = self.attention_dropout if self.training else 0.0
        bounded = documents is not None and documents.bounds is not None and not self.capped
        free = all(
            part is None for part in (pairs, prefix, cache, self.prefix_positions, self.relative)
        )
        flat = bounded and reads_documents(x, self.head_width, dropout, paired=source is not None)
        per_document = flat and free and not self.biased
        if documents is not None and not per_document:
            pairs = documents.mask() if pairs is None else documents.mask() & pairs

        def build_plan(position: Position, window: int | None) -> AttentionPlan:
            rotation = position.rotation(positions)

            if per_document:
                return AttentionPlan(
                    None, self.causal, rotation, documents=documents, window=window
                )

            bias = position.bias(positions, columns)
            visible = pairs
            # the window counts positions along the row, whatever the position ids are
            if window is not None:
                keys = (
                    torch.arange(columns.shape[1], device=columns.device)[None]
                    if cache is None
                    else columns
                )
                near = window_mask(keys if cache is None else positions, keys, window)
                visible = near if pairs is None else near & pairs

            if cache is None:
                return plan_attention(
                    bias, padding, self.causal, rotation, visible, prefix
                )._replace(relative=relative)

            return plan_continuation(bias, rotation, positions, columns, prefix, cache, visible)

        # one plan for global layers, one for local ones, and one for each layer with a bias
        global_plan = local_plan = build_plan(self.position, None)
        if self.local_layers:
            local_plan = build_plan(self.local_position, self.window)
        source_plan = AttentionPlan(cache=cache)

        if source is not None:
            source_plan = plan_source(
                source, source_visible, documents, source_documents, cache, flat=flat
            )

        waves = None
        if self.universal and isinstance(self.position, Sinusoidal):
            waves = self.position.embed(positions)

        # layers may share weights
        for index, number in enumerate(self.order):
            layer = self.layers[number]
            is_local = index in self.local_layers
            plan = local_plan if is_local else global_plan
            if isinstance(layer.position, Position):
                plan = build_plan(layer.position, self.window if is_local else None)
            plan = plan._replace(rotation=None) if index in self.nope_layers else plan
            x = add_step_signal(x, index, waves) if self.universal else x
            x = layer(x, plan, source, source_plan)

        return self.dropout(self.norm(x))

    def flops(self, tokens: float, source: float = 0) -> float:
        """Return the forward FLOPs of a row; `source`: tokens of the encoder's row."""
        total = tokens * matrix_flops(self.embeddings.project)
        for index, number in enumerate(self.order):
            window = tokens if index not in self.local_layers else 2 * (self.window or 0) + 1
            # in a causal stack, a token sees half of the row on average
            visible = np.minimum(window, tokens) / (2 if self.causal else 1)
            layer: Any = self.layers[number]
            total += layer.flops(tokens, visible, source)
        return total

    def share(self, other: Self) -> None:
        """Use the weights of another stack, except for positions and cross-attention."""
        self.embeddings = other.embeddings
        self.norm = other.norm
        for layer, source in zip(self.layers, other.layers, strict=True):
            layer.attention = source.attention
            layer.feed_forward = source.feed_forward


def layer_states(stack: Stack, read: Callable[[], Tensor]) -> list[Tensor]:
    """Return the states [B, T, dim] during `read`: embeddings, each layer, the stack's output."""
    with record_outputs(stack.embeddings, *stack.layers) as states:
        last = read()
    # without the positions of a prompt adapter
    return [*(state[:, -last.shape[1] :] for state in states[:-1]), last]


@contextmanager
def record_outputs(*modules: nn.Module) -> Iterator[list[Tensor]]:
    """Yield a list to which each call of the modules appends its output."""
    outputs: list[Tensor] = []
    with ExitStack() as hooks:
        for module in modules:
            hooks.callback(
                module.register_forward_hook(lambda _, __, output: outputs.append(output)).remove
            )
        yield outputs


def shared_layers(layers: int, groups: int | None, group_layers: int) -> list[int]:
    """Return the index of the weights that each layer uses (ALBERT, arXiv 1909.11942).

    Consecutive layers cycle through the groups; None: no weights are shared.

    Example:
        >>> shared_layers(6, 2, 1), shared_layers(6, 1, 2)
        ([0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1])
    """
    repeats = layers // group_layers
    # in this order and in floating point, to round like the published code
    numbers = [int(index / (repeats / (groups or repeats))) for index in range(repeats)]
    return [number * group_layers + inner for number in numbers for inner in range(group_layers)]
