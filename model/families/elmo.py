"""ELMo (arXiv 1802.05365): words read as characters, then a recurrent language model in each direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from clozeline.model.configuration.key_types import STRICT
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.families import Family
from clozeline.model.families._recurrent import PARTS, RecurrentOptions
from clozeline.model.flops import matrix_flops
from clozeline.model.layers.characters import CharacterEncoder, character_ids
from clozeline.model.layers.projected_lstm import ProjectedLstm

Small = Annotated[int, Field(ge=1, le=2**16)]


class Elmo(Family):
    """Two stacks of LSTM over the same word vectors, one from left to right, one from right to left.

    The first half of a state is what the left tells, the second what the right tells; each half has seen the token
    itself. From the second layer on, a layer adds its input. `dropout.hidden` acts on the input of each layer and on
    the last output. `tokens` is the table of the words that the head chooses among: inputs enter by their characters,
    `characters` [B, T, max_characters] of the batch, or those of `input_ids`.
    """

    architecture: ClassVar = "decoder"
    needs: ClassVar = frozenset({"input_ids", "lengths"})
    reads_characters: ClassVar = True
    layered: ClassVar = True
    compiled: ClassVar = False
    unsupported: ClassVar = PARTS
    config: Options

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options(RecurrentOptions):
        """Keys of ELMo; `dim` is the width of both directions together."""

        READS: ClassVar = frozenset({"dropout.hidden"})
        HEADS: ClassVar = frozenset({"bidirectional_lm"})

        clip: Annotated[float, Field(gt=0)] = 3.0
        """Bound of the absolute values of cells and of outputs."""
        max_characters: Annotated[int, Field(ge=3, le=2**10)] = 50
        """Bytes of a word that are read, both ends included."""
        character_dim: Small = 16
        """Width of the vector of a character."""
        filters: tuple[tuple[Small, Small], ...] = (
            (1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024),
        )  # fmt: skip
        """Convolutions over characters: their width, and how many of that width."""
        highways: Annotated[int, Field(ge=0, le=64)] = 2
        """Highway layers after the convolutions."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.dim % 2:
                raise ValueError(f"dim: expected an even number, half of it for each direction, got {self.dim}")
            if not self.filters or max(size for size, _ in self.filters) > self.max_characters:
                raise ValueError(
                    f"filters: expected convolutions of at most max_characters {self.max_characters} characters, got "
                    f"{[list(one) for one in self.filters]}"
                )

    def __init__(self, config: ModelConfig, rows: int) -> None:
        super().__init__()
        assert isinstance(config, Elmo.Options)
        self.config = config
        width = config.dim // 2
        self.tokens = nn.Embedding(rows, width)
        self.words = CharacterEncoder(config.character_dim, config.filters, config.highways, width)
        self.left, self.right = _Direction(config), _Direction(config)
        self._token_flops = self.words.flops(config.max_characters) + matrix_flops(self.left, self.right)
        spelling = torch.zeros(rows, config.max_characters, dtype=torch.int16)
        self.spelling: Tensor
        self.register_buffer("spelling", spelling, persistent=False)  # the tokenizer has it

    def set_token_bytes(self, token_bytes: Sequence[bytes], special_ids: Mapping[str, int]) -> None:
        """Take the UTF-8 of each token; rows that pad the table are never read."""
        ids = character_ids(token_bytes, self.config.max_characters, special_ids)
        self.spelling[: len(ids)] = ids

    def forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return hidden states [B, T, dim] of the last layer."""
        return self.layer_states(tensors)[-1]

    def layer_states(self, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the states [B, T, dim] of every layer, first the word vectors, twice beside each other.

        `ScalarMix` makes one vector a token of them.
        """
        self.refuse_unsupported(tensors)
        ids, lengths = tensors["input_ids"], tensors["lengths"]
        words = self.words(tensors["characters"] if "characters" in tensors else self.spelling[ids])
        turned = _reverse_index(ids, lengths)
        left, right = self.left(words), self.right(_gather(words, turned))
        pairs = zip(left, (_gather(state, turned) for state in right), strict=True)
        return [torch.cat(pair, dim=-1) for pair in pairs]

    def flops(self, tokens: int, target_tokens: int) -> float:
        """Return the floating-point operations of one row's forward; `target_tokens` is 0."""
        return tokens * self._token_flops


class _Direction(nn.Module):
    """The layers of one direction, over rows in the order of their reading."""

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


def _reverse_index(ids: Tensor, lengths: Tensor) -> Tensor:
    """Return the places [B, T] of rows read from their end; those of padding stay. It undoes itself."""
    places, ends = torch.arange(ids.shape[1], device=ids.device), lengths.to(ids.device).view(-1, 1)
    return torch.where(places < ends, ends - 1 - places, places).expand(ids.shape)


def _gather(x: Tensor, places: Tensor) -> Tensor:
    return x.gather(1, places[..., None].expand_as(x))
