"""Pool token states into row vectors, mix layers, and classify: shared parts of task heads."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import torch
from torch import Tensor, nn

from clozeline.errors import BatchError
from clozeline.model.configuration.head import ClassifierOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.activation import ACTIVATIONS
from clozeline.model.layers.norm import build_norm
from clozeline.model.parameters.initial_values import Draw, constant

PAIR_FEATURES: Final = 4
"""Number of vectors that the pool `pair` concatenates."""


def pool(kind: str, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
    """Return one vector per row: [B, T, dim] to [B, dim], or to [B, 4 x dim] for `pair`.

    A row without tokens is read as one token.

    Args:
        kind: cls, the first token (arXiv 1810.04805); mean or max over all tokens (arXiv
            1908.10084); last, the last token, which in a causal stack has seen the entire row;
            decoder_last, the decoder's state at the position of the encoder's last token, because
            the decoder reads the same row shifted by one (arXiv 1910.13461); pair, the means a and
            b of the two segments as a, b, abs(a - b), a x b (arXiv 1705.02364), each with its
            special tokens.
        hidden: states of the rows; decoder_last: of the decoder's rows, padded on the right.
        tensors: `lengths` [B], or [] if no row is padded; optionally `left_padding` [B]; pair:
            `type_ids` [B, T].

    Raises:
        BatchError: decoder_last: a decoder's row is shorter than the encoder's. pair: rows have no
            segments.

    Example (two rows of two tokens and of one, the second with one padded position):
        >>> hidden = torch.tensor([[[1.0], [3.0]], [[5.0], [9.0]]])
        >>> batch = {"lengths": torch.tensor([2, 1])}
        >>> for kind in ("cls", "mean", "max", "last"):
        ...     print(pool(kind, hidden, batch).flatten().tolist())
        [1.0, 5.0]
        [2.0, 5.0]
        [3.0, 5.0]
        [3.0, 5.0]
    """
    rows, columns = hidden.shape[:2]
    lengths = tensors["lengths"].to(hidden.device).expand(rows).clamp(min=1)
    first = (
        tensors["left_padding"].to(hidden.device)
        if "left_padding" in tensors
        else torch.zeros_like(lengths)
    )

    if kind == "decoder_last":
        if columns < tensors["input_ids"].shape[1]:
            raise BatchError(
                "decoder_input_ids: expected the row of the encoder, "
                f"{tensors['input_ids'].shape[1]} positions, got {columns}: the pool decoder_last "
                "reads the state at the row's last token"
            )
        first = torch.zeros_like(lengths)

    # pools over all tokens: `inside` [B, T] is True at tokens
    if kind in ("mean", "max", "pair"):
        positions = torch.arange(columns, device=hidden.device) - first[:, None]
        inside = (positions >= 0) & (positions < lengths[:, None])
        if kind == "max":
            return hidden.masked_fill(~inside[..., None], -torch.inf).amax(1)
        if kind == "mean":
            return _mean(hidden, inside)
        if "type_ids" not in tensors:
            raise BatchError(
                "the pool pair reads two segments, but these rows have one: choose another pool"
            )

        segments = tensors.get("segment_ids", tensors["type_ids"]).to(hidden.device)
        a, b = (_mean(hidden, inside & (segments == number)) for number in (0, 1))
        return torch.cat((a, b, (a - b).abs(), a * b), dim=-1)

    # pools of one token
    position = first if kind == "cls" else first + lengths - 1
    return hidden[torch.arange(rows, device=hidden.device), position]


def _mean(hidden: Tensor, chosen: Tensor) -> Tensor:
    """Return the mean state of the chosen positions [B, T] of each row, 0 if none is chosen."""
    counts = chosen.sum(1, keepdim=True).clamp(min=1)
    return hidden.masked_fill(~chosen[..., None], 0.0).sum(1) / counts


class Pooler(nn.Module):
    """tanh(Linear(x)) of the state at [CLS] (arXiv 1810.04805), or without transform the state."""

    def __init__(self, width: int, *, transform: bool = True) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width) if transform else None

    def forward(self, hidden: Tensor) -> Tensor:
        """Map [B, T, width] to [B, width]."""
        first = hidden[:, 0]
        return first if self.dense is None else torch.tanh(self.dense(first))


class ScalarMix(nn.Module):
    """gain x sum over layers of softmax(weights)[layer] x state (arXiv 1802.05365 §3.2).

    Initially this is the mean.
    """

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.gain = nn.Parameter(torch.ones(1))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        return {"weights": constant(0.0), "gain": constant(1.0)}

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """Mix one state [B, T, width] per layer."""
        return self.gain * torch.einsum(
            "l,l...->...", self.weights.softmax(0), torch.stack(list(states))
        )


class Classifier(nn.Module):
    """Dropout and a linear map; `hidden` adds dropout, a linear map and activation before them.

    `hidden: tanh` is BERT's pooler and classifier (arXiv 1810.04805); with `input_dropout` as well,
    RoBERTa's.
    """

    def __init__(
        self,
        config: ModelConfig,
        options: ClassifierOptions,
        classes: int,
        inputs: int | None = None,
    ) -> None:
        super().__init__()
        inputs = inputs or config.dim
        self.input_dropout = nn.Dropout(options.input_dropout)

        # the hidden map, if there is one
        width = options.hidden_dim or (config.dim if options.hidden else inputs)
        self.dense = (
            nn.Linear(inputs, width, bias=config.bias.head) if options.hidden else nn.Identity()
        )
        self.act: Callable[[Tensor], Tensor] = (
            ACTIVATIONS[options.hidden] if options.hidden else nn.Identity()
        )
        self.norm = (
            build_norm(config, width) if options.hidden and options.hidden_norm else nn.Identity()
        )

        # the map onto the classes
        self.dropout = nn.Dropout(
            config.dropout.hidden if options.dropout is None else options.dropout
        )
        self.out = nn.Linear(width, classes, bias=options.bias)

    def forward(self, states: Tensor) -> Tensor:
        """Return scores: [..., dim] to [..., classes]."""
        return self.out(self.dropout(self.norm(self.act(self.dense(self.input_dropout(states))))))
