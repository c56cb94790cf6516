"""Word vectors from characters: token_bytes as ids, and the convolutions that read them (arXiv 1508.06615)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.model.flops import matrix_flops
from clozeline.model.parameters.initial_values import Draw, constant_per_gate, normal, uniform
from clozeline.model.parameters.sharding import full_shape

_BYTES: Final = 256
_SPECIAL: Final = {"bos": _BYTES, "eos": _BYTES + 1, "pad": _BYTES + 2}
"""Special tokens that are one character of their own; the others are spelled as their pieces are written."""
_BEGIN, _END, _FILL = _BYTES + 3, _BYTES + 4, _BYTES + 5
CHARACTERS: Final = _BYTES + 6
"""Bytes of UTF-8, three special tokens, both ends of a word, and what fills the places after it."""


def character_ids(token_bytes: Sequence[bytes], width: int, special_ids: Mapping[str, int] | None = None) -> Tensor:
    """Return the characters of words, int16 [words, width]; a longer word is cut.

    Args:
        token_bytes: UTF-8 of each word.
        width: characters of a word, both ends included; at least 3.
        special_ids: name to place in `token_bytes` of the special tokens among the words.

    Example:
        >>> character_ids([b"at", b"<s>"], 5, {"bos": 1}).tolist()
        [[259, 97, 116, 260, 261], [259, 256, 260, 261, 261]]
    """
    own = {number: [_SPECIAL[name]] for name, number in (special_ids or {}).items() if name in _SPECIAL}
    found = torch.full((len(token_bytes), width), _FILL, dtype=torch.int16)
    for number, spelling in enumerate(token_bytes):
        word = [_BEGIN, *own.get(number, spelling[: width - 2]), _END]
        found[number, : len(word)] = torch.tensor(word)
    return found


class CharacterEncoder(nn.Module):
    """Convolutions over the characters of each word, their maxima, highway layers, and a projection.

    Args:
        width: of a character's vector.
        filters: width in characters of the convolutions of a kind, and their number.
        highways: number of highway layers.
        outputs: width of a word's vector.
    """

    def __init__(self, width: int, filters: Sequence[tuple[int, int]], highways: int, outputs: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(CHARACTERS, width)
        self.convolutions = nn.ModuleList(nn.Conv1d(width, count, size) for size, count in filters)
        found = sum(count for _, count in filters)
        self.highways = nn.ModuleList(Highway(found) for _ in range(highways))
        self.projection = nn.Linear(found, outputs)

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        """Return the laws of the filters; layers inside have laws of their own."""
        return {f"convolutions.{number}.weight": uniform(0.05) for number in range(len(self.convolutions))}

    def forward(self, characters: Tensor) -> Tensor:
        """Return vectors [B, T, outputs] of characters [B, T, width]."""
        vectors = self.characters(characters.long()).flatten(0, 1).transpose(1, 2)
        x = torch.cat([convolution(vectors).amax(-1) for convolution in self.convolutions], dim=-1).relu()
        for highway in self.highways:
            x = highway(x)
        out: Tensor = self.projection(x).unflatten(0, characters.shape[:2])
        return out

    def flops(self, places: int) -> float:
        """Return the floating-point operations of the forward for one word of `places` characters."""
        total = matrix_flops(self.projection, self.highways)
        for convolution in self.convolutions:
            assert isinstance(convolution, nn.Conv1d)
            total += 2.0 * full_shape(convolution.weight).numel() * (places - convolution.kernel_size[0] + 1)
        return total


class Highway(nn.Module):
    """A gate chooses between the input and relu of its linear map (arXiv 1505.00387); first mostly the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.empty(2 * width, width))
        self.bias = nn.Parameter(torch.empty(2 * width))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        """Return the laws of the parameters; the bias -2 lets the input through."""
        return {"weight": normal(self.width**-0.5), "bias": constant_per_gate(0.0, -2.0)}

    def forward(self, x: Tensor) -> Tensor:
        """Map [words, width] to the same shape."""
        mapped, gate = F.linear(x, self.weight, self.bias).chunk(2, dim=-1)
        share = gate.sigmoid()
        return share * mapped.relu() + (1 - share) * x
