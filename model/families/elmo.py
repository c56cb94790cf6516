"""ELMo (arXiv 1802.05365): words as characters, and a recurrent language model per direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from clozeline.columns import INPUT_IDS, LENGTHS
from clozeline.configuration.config import config_class
from clozeline.model.configuration.capabilities import COMPARED_LAYERS, FIXED_GRAPHS
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.families import ModelFamily
from clozeline.model.families._recurrent import PARTS, READ_KEYS, RecurrentOptions
from clozeline.model.layers.characters import CharacterEncoder, character_ids
from clozeline.model.layers.lstm import ProjectedLstm
from clozeline.model.parameters.flops import matrix_flops

_SizeTo65536 = Annotated[int, Field(ge=1, le=2**16)]


class Elmo(ModelFamily):
    """Two LSTM stacks over the same word vectors, one from left to right, one from right to left.

    The first half of a state has read the left context, the second the right; each half has seen
    the token itself. From the second layer on, a layer adds its input to its output.
    `dropout.hidden` is applied to the input of each layer and to the last output. `tokens` is the
    output table, which no input reads. Words enter as characters: `characters`
    [B, T, max_characters] of the batch, or, if the batch has none, the characters of each token in
    `input_ids`.
    """

    architecture = "decoder"
    reads = (INPUT_IDS, LENGTHS)
    reads_characters = True
    layered = True
    prevents: ClassVar = {FIXED_GRAPHS, COMPARED_LAYERS}
    unsupported = PARTS
    read_keys = READ_KEYS | {"dropout.hidden"}
    config: Options

    @config_class
    class Options(RecurrentOptions):
        """Configuration of ELMo; `dim` is the width of both directions together."""

        HEADS: ClassVar = frozenset({"bidirectional_lm"})

        clip: Annotated[float, Field(gt=0)] = 3.0
        """Bound of the absolute values of cells and outputs."""
        max_characters: Annotated[int, Field(ge=3, le=2**10)] = 50
        """Number of bytes of a word that are read, including start and end."""
        character_dim: _SizeTo65536 = 16
        """Width of the vector of a character."""
        filters: tuple[tuple[_SizeTo65536, _SizeTo65536], ...] = (
            (1, 32),
            (2, 32),
            (3, 64),
            (4, 128),
            (5, 256),
            (6, 512),
            (7, 1024),
        )
        """Convolutions over characters: (width, number of filters)."""
        highways: Annotated[int, Field(ge=0, le=64)] = 2
        """Highway layers after the convolutions."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.dim % 2:
                raise ValueError(
                    f"dim: expected an even number, half of it for each direction, got {self.dim}"
                )
            if not self.filters or max(size for size, _ in self.filters) > self.max_characters:
                most = f"at most max_characters {self.max_characters}"
                got = [list(pair) for pair in self.filters]
                raise ValueError(f"filters: expected convolutions of {most} characters, got {got}")

    def __init__(self, config: ModelConfig, rows: int) -> None:
        super().__init__()

        assert isinstance(config, Elmo.Options)

        self.config = config
        width = config.dim // 2
        self.tokens = nn.Embedding(rows, width)
        self.words = CharacterEncoder(config.character_dim, config.filters, config.highways, width)
        self.left = _Direction(config)
        self.right = _Direction(config)
        self._token_flops = self.words.flops(config.max_characters)
        self._token_flops += matrix_flops(self.left, self.right)
        characters = torch.zeros(rows, config.max_characters, dtype=torch.int16)
        # characters of each token, not saved with the weights: the tokenizer has their bytes
        self.characters: Tensor
        self.register_buffer("characters", characters, persistent=False)

    def set_token_bytes(self, token_bytes: Sequence[bytes], special_ids: Mapping[str, int]) -> None:
        ids = character_ids(token_bytes, self.config.max_characters, special_ids)
        self.characters[: len(ids)] = ids  # padding rows of the table are never read

    def forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return self.layer_states(tensors)[-1]

    def layer_states(self, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the word vectors, concatenated with themselves, then the states of every layer.

        All have the shape [B, T, dim].
        """
        self.refuse_unsupported(tensors)
        ids = tensors["input_ids"]
        lengths = tensors["lengths"]
        words = self.words(
            tensors["characters"] if "characters" in tensors else self.characters[ids]
        )

        # the right-to-left stack reads each row from its end: gather states at positions
        # `reversed_positions` [B, T], and again to restore the order; padding does not move
        positions = torch.arange(ids.shape[1], device=ids.device)
        ends = lengths.to(ids.device).view(-1, 1)
        reversed_positions = torch.where(positions < ends, ends - 1 - positions, positions)
        reversed_positions = reversed_positions.expand(ids.shape)
        left = self.left(words)
        right = self.right(_gather(words, reversed_positions))
        pairs = zip(left, (_gather(state, reversed_positions) for state in right), strict=True)
        return [torch.cat(pair, dim=-1) for pair in pairs]

    def flops(self, tokens: int, target_tokens: int) -> float:
        return tokens * self._token_flops


class _Direction(nn.Module):
    """The layers of one direction; rows come in the order in which this direction reads."""

    def __init__(self, config: Elmo.Options) -> None:
        super().__init__()
        width = config.dim // 2
        self.layers = nn.ModuleList(
            ProjectedLstm(width, config.cell_dim, width, config.clip) for _ in range(config.layers)
        )
        self.dropout = nn.Dropout(config.dropout.hidden)

    def forward(self, words: Tensor) -> list[Tensor]:
        """Return the word vectors [B, T, dim / 2] and the states of every layer."""
        states = [words]
        for number, layer in enumerate(self.layers):
            x = self.dropout(states[-1])
            states.append(layer(x) + x if number else layer(x))
        return [*states[:-1], self.dropout(states[-1])]


def _gather(x: Tensor, positions: Tensor) -> Tensor:
    return x.gather(1, positions[..., None].expand_as(x))
