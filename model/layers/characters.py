"""Character-level word vectors: character ids, and their convolutions (arXiv 1508.06615)."""

from collections.abc import Mapping, Sequence
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.model.parameters.flops import matrix_flops
from clozeline.model.parameters.initial_values import Draw, constant_per_gate, normal, uniform
from clozeline.model.parameters.sharding import full_shape

_BYTES: Final = 256
_SPECIAL: Final = {"bos": _BYTES, "eos": _BYTES + 1, "pad": _BYTES + 2}
"""Special tokens that are a single character; others are spelled with their bytes."""
_BEGIN = _BYTES + 3
_END = _BYTES + 4
_FILL = _BYTES + 5
CHARACTERS: Final = _BYTES + 6
"""Number of characters: bytes, three special tokens, start and end of a word, and filler."""


def character_ids(
    token_bytes: Sequence[bytes], width: int, special_ids: Mapping[str, int] | None = None
) -> Tensor:
    """Return the characters of words, int16 [words, width], with start and end; truncate words.

    `special_ids` gives the index in `token_bytes` of each special token by name.

    Example:
        >>> character_ids([b"at", b"<s>"], 5, {"bos": 1}).tolist()
        [[259, 97, 116, 260, 261], [259, 256, 260, 261, 261]]
    """
    special = {
        index: [_SPECIAL[name]] for name, index in (special_ids or {}).items() if name in _SPECIAL
    }
    ids = torch.full((len(token_bytes), width), _FILL, dtype=torch.int16)
    for index, text in enumerate(token_bytes):
        word = [_BEGIN, *special.get(index, text[: width - 2]), _END]
        ids[index, : len(word)] = torch.tensor(word)
    return ids


class CharacterEncoder(nn.Module):
    """Convolutions over the characters of a word, max pooling, highway layers, and a projection.

    Args:
            width: width of a character's vector.
            filters: (width in characters, number of filters) of each convolution.
            highways: number of highway layers.
            outputs: width of a word's vector.
    """

    def __init__(
        self, width: int, filters: Sequence[tuple[int, int]], highways: int, outputs: int
    ) -> None:
        super().__init__()
        self.characters = nn.Embedding(CHARACTERS, width)
        self.convolutions = nn.ModuleList(nn.Conv1d(width, count, size) for size, count in filters)
        features = sum(count for _, count in filters)
        self.highways = nn.ModuleList(Highway(features) for _ in range(highways))
        self.projection = nn.Linear(features, outputs)

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        return {
            f"convolutions.{number}.weight": uniform(0.05)
            for number in range(len(self.convolutions))
        }

    def forward(self, characters: Tensor) -> Tensor:
        """Return the vectors [B, T, outputs] of characters [B, T, width]."""
        # each word is a sequence: [B * T, width of a vector, characters]
        vectors = self.characters(characters.long()).flatten(0, 1).transpose(1, 2)
        x = torch.cat(
            [convolution(vectors).amax(-1) for convolution in self.convolutions], dim=-1
        ).relu()
        for highway in self.highways:
            x = highway(x)
        return self.projection(x).unflatten(0, characters.shape[:2])

    def flops(self, positions: int) -> float:
        """Return the forward FLOPs for one word of `positions` characters."""
        total = matrix_flops(self.projection, self.highways)
        for convolution in self.convolutions:
            assert isinstance(convolution, nn.Conv1d)
            windows = positions - convolution.kernel_size[0] + 1
            total += 2.0 * full_shape(convolution.weight).numel() * windows
        return total


class Highway(nn.Module):
    """A gate mixes the input with the relu of a linear map of it (arXiv 1505.00387).

    At first it passes mostly the input.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.empty(2 * width, width))
        self.bias = nn.Parameter(torch.empty(2 * width))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        # a gate bias of -2 passes the input
        return {"weight": normal(self.width**-0.5), "bias": constant_per_gate(0.0, -2.0)}

    def forward(self, x: Tensor) -> Tensor:
        """Map [words, width] to the same shape."""
        mapped, gate = F.linear(x, self.weight, self.bias).chunk(2, dim=-1)
        share = gate.sigmoid()
        return share * mapped.relu() + (1 - share) * x
