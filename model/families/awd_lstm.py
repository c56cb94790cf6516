"""AWD-LSTM (arXiv 1708.02182), the language model of ULMFiT (arXiv 1801.06146)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn

from clozeline.columns import INPUT_IDS
from clozeline.configuration.config import config_class
from clozeline.model.configuration.capabilities import COMPARED_LAYERS, FIXED_GRAPHS
from clozeline.model.configuration.key_types import Probability
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.families import ModelFamily
from clozeline.model.families._recurrent import PARTS, READ_KEYS, RecurrentOptions
from clozeline.model.layers.cache import Cache
from clozeline.model.layers.lstm import LongShortTermMemory, State, drop_features, drop_words
from clozeline.model.parameters.flops import matrix_flops


class AwdLstm(ModelFamily):
    """LSTM layers from left to right, with `cell_dim` outputs; the last one has `dim`.

    `dropout.embedding` drops features of the embeddings, `dropout.hidden` features between two
    layers, and the head applies `dropout.output`, each with one mask for all tokens of a row.
    Padding is on the right.
    """

    architecture = "decoder"
    reads = (INPUT_IDS,)
    prevents: ClassVar = {FIXED_GRAPHS, COMPARED_LAYERS}
    unsupported = PARTS
    read_keys = READ_KEYS | {"tied", "dropout.embedding", "dropout.hidden", "dropout.output"}
    config: Options

    @config_class
    class Options(RecurrentOptions):
        """Configuration of an AWD-LSTM."""

        HEADS: ClassVar = frozenset({"regularized_lm"})

        word_dropout: Probability = 0.0
        """Dropout of entire words of the embedding, at all their positions in a batch (arXiv
        1512.05287)."""
        weight_dropout: Probability = 0.0
        """Dropout of entries of the recurrent matrices, the same ones at all tokens of a batch."""

    def __init__(self, config: ModelConfig, rows: int) -> None:
        super().__init__()
        assert isinstance(config, AwdLstm.Options)
        self.config = config
        self.tokens = nn.Embedding(rows, config.dim)
        widths = [config.dim, *[config.cell_dim] * (config.layers - 1), config.dim]
        self.layers = nn.ModuleList(
            LongShortTermMemory(inputs, outputs, config.weight_dropout)
            for inputs, outputs in pairwise(widths)
        )
        self._token_flops = matrix_flops(self.layers)

    def forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        self.refuse_unsupported(tensors)
        hidden, _ = self._read(tensors["input_ids"], None)
        return hidden

    def decode(self, tensors: Mapping[str, Tensor], cache: Cache | None) -> Tensor:
        """Return the states [B, n, dim] of the given tokens, which padding does not change."""
        if cache is None:
            return self.forward(tensors)
        self.refuse_unsupported(tensors)
        ids = tensors["input_ids"]
        states = cache.recall(self)
        if states is not None:
            hidden, states = self._read(ids, states)
        else:
            # prompts of different lengths: a row that has ended keeps its state
            outputs = []
            for position in range(ids.shape[1]):
                state, following = self._read(ids[:, position : position + 1], states)
                real = (position < tensors["lengths"])[:, None]
                states = following if states is None else _select_states(real, following, states)
                outputs.append(state)
            hidden = torch.cat(outputs, dim=1)

        cache.remember(self, states)
        return hidden

    def flops(self, tokens: int, target_tokens: int) -> float:
        return tokens * self._token_flops

    def _read(self, ids: Tensor, states: list[State] | None) -> tuple[Tensor, list[State]]:
        """Return the last layer's states [B, T, dim], and every layer's final state."""
        config = self.config
        following = []
        x = drop_words(
            self.tokens(ids), ids, self.tokens.num_embeddings, config.word_dropout, self.training
        )
        x = drop_features(x, config.dropout.embedding, self.training)

        for number, layer in enumerate(self.layers):
            if number:
                x = drop_features(x, config.dropout.hidden, self.training)
            x, state = layer(x, None if states is None else states[number])
            following.append(state)

        return x, following


def _select_states(real: Tensor, new: list[State], old: list[State]) -> list[State]:
    """Return the new states of rows that have a token here, and the old states of other rows."""
    return [
        (torch.where(real, output, old_output), torch.where(real, cell, old_cell))
        for (output, cell), (old_output, old_cell) in zip(new, old, strict=True)
    ]
