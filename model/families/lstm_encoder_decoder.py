"""A recurrent encoder-decoder (arXiv 1409.3215), with attention (arXiv 1409.0473, 1508.04025)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor, nn

from clozeline.columns import DECODER_TEXT, INPUT_IDS, LENGTHS
from clozeline.configuration.config import config_class
from clozeline.model.configuration.capabilities import COMPARED_LAYERS, FIXED_GRAPHS
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.families import ModelFamily
from clozeline.model.families._recurrent import PARTS, READ_KEYS, RecurrentOptions
from clozeline.model.layers.cache import Cache
from clozeline.model.layers.lstm import LongShortTermMemory, State, drop_features
from clozeline.model.layers.masks import BLOCKED
from clozeline.model.parameters.flops import matrix_flops

Source: TypeAlias = tuple[Tensor, Tensor, list[State]]
"""states [B, S, cell_dim] of the encoder, which of them are real [B or 1, S], and the states from
which the decoder starts"""


class LstmEncoderDecoder(ModelFamily):
    """LSTM layers that read the source from left to right, and layers that write from their state.

    Each layer of the decoder starts from a linear map of what the encoder's layer said at the last
    token of the row (arXiv 1409.0473, A.2.2); without attention, it knows no more of the source.
    With it, the last layer's state at each token also averages the encoder's states, weighted by a
    softmax of their scores.
    `dropout.embedding` and `dropout.hidden` are those of an AWD-LSTM. Padding is on the right.
    """

    architecture = "encoder_decoder"
    reads = (INPUT_IDS, LENGTHS, DECODER_TEXT.ids)
    prevents: ClassVar = {FIXED_GRAPHS, COMPARED_LAYERS}
    unsupported = PARTS
    read_keys = READ_KEYS | {"tied", "dropout.embedding", "dropout.hidden"}
    config: Options

    @config_class
    class Options(RecurrentOptions):
        """Configuration of a recurrent encoder-decoder; `layers` are those of each side."""

        HEADS: ClassVar = frozenset({"lm"})

        attention: Literal["none", "additive", "dot"] = "additive"
        """How a state of the decoder scores those of the encoder: by a layer that reads both
        (additive, arXiv 1409.0473) or by their product (dot, arXiv 1508.04025); none: it has no
        attention."""

    def __init__(self, config: ModelConfig, rows: int) -> None:
        super().__init__()
        assert isinstance(config, LstmEncoderDecoder.Options)
        self.config = config
        width = config.cell_dim
        self.tokens = nn.Embedding(rows, config.dim)
        self.encoder = _layers(config)
        self.decoder = _layers(config)
        self.starts = nn.ModuleList(nn.Linear(width, width) for _ in range(config.layers))
        attends = config.attention != "none"
        self.combine = nn.Linear(width * (1 + attends), config.dim, bias=False)
        self.score = AdditiveScore(width) if config.attention == "additive" else None
        self.alignment = nn.Identity()

    def forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return self.decode(tensors, None)

    def decode(self, tensors: Mapping[str, Tensor], cache: Cache | None) -> Tensor:
        """Return the states [B, T, dim] of the decoder's tokens."""
        self.refuse_unsupported(tensors)
        encode = partial(self._encode, tensors)
        source = encode() if cache is None else cache.once(self, encode)
        states = source[2] if cache is None else cache.recall(self) or source[2]
        outputs, following = self._read(self.decoder, tensors["decoder_input_ids"], states)
        hidden = outputs[-1]
        if cache is not None:
            cache.remember(self, following)
        if self.config.attention != "none":
            weights = self._weights(hidden, source)
            hidden = torch.cat((hidden, weights @ source[0]), dim=-1)
        return self.combine(hidden).tanh()

    @property
    def aligned_by(self) -> nn.Module:
        return self.alignment

    def flops(self, tokens: int, target_tokens: int) -> float:
        source = tokens * matrix_flops(self.encoder) + matrix_flops(self.starts)
        target = target_tokens * matrix_flops(self.decoder, self.combine)
        pairs = 0.0
        if self.config.attention != "none":
            pairs = 4.0 * self.config.cell_dim * tokens * target_tokens
        if self.score is not None:
            source += tokens * matrix_flops(self.score.source)
            target += target_tokens * matrix_flops(self.score.target)
        return source + target + pairs

    def _encode(self, tensors: Mapping[str, Tensor]) -> Source:
        ids = tensors["input_ids"]
        outputs, _ = self._read(self.encoder, ids, None)
        lengths = tensors["lengths"].to(ids.device).view(-1, 1)
        positions = torch.arange(ids.shape[1], device=ids.device)
        last = (lengths[..., None] - 1).expand(len(ids), 1, self.config.cell_dim)
        cells = [
            start(output.gather(1, last).squeeze(1))
            for start, output in zip(self.starts, outputs, strict=True)
        ]
        return outputs[-1], positions < lengths, [(cell.tanh(), cell) for cell in cells]

    def _read(
        self, layers: nn.ModuleList, ids: Tensor, states: list[State] | None
    ) -> tuple[list[Tensor], list[State]]:
        """Return the outputs [B, T, cell_dim] of each layer, and its state after the last token."""
        dropout = self.config.dropout
        x = drop_features(self.tokens(ids), dropout.embedding, self.training)
        outputs, following = [], []
        for number, layer in enumerate(layers):
            if number:
                x = drop_features(x, dropout.hidden, self.training)
            x, state = layer(x, None if states is None else states[number])
            outputs.append(x)
            following.append(state)
        return outputs, following

    def _weights(self, hidden: Tensor, source: Source) -> Tensor:
        """Return the weights [B, T, S] of the encoder's states for states of the decoder."""
        states, real, _ = source
        scores = hidden @ states.mT if self.score is None else self.score(hidden, states)
        weights = scores.float().masked_fill(~real[:, None], BLOCKED).softmax(-1)
        return self.alignment(weights.to(hidden.dtype))


class AdditiveScore(nn.Module):
    """Scores of pairs of states by a layer with tanh, and a vector (arXiv 1409.0473)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.target = nn.Linear(width, width)
        self.source = nn.Linear(width, width, bias=False)
        self.vector = nn.Linear(width, 1, bias=False)

    def forward(self, target: Tensor, source: Tensor) -> Tensor:
        """Return the scores [B, T, S] of states [B, T, width] and [B, S, width]."""
        both = self.target(target)[:, :, None] + self.source(source)[:, None]
        return self.vector(both.tanh()).squeeze(-1)


def _layers(config: LstmEncoderDecoder.Options) -> nn.ModuleList:
    widths = [config.dim, *[config.cell_dim] * config.layers]
    return nn.ModuleList(LongShortTermMemory(*pair, 0.0) for pair in pairwise(widths))
