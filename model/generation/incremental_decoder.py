"""Incremental decoding with a key-value cache: each token is read once."""

from collections.abc import Sequence

import torch
from torch import Tensor

from clozeline.columns import DECODER_TEXT, ROW_TEXT, TextFields
from clozeline.errors import BatchError, ConfigurationError
from clozeline.model.build import Model
from clozeline.model.compilation.host_shapes import add_host_shapes
from clozeline.model.layers.cache import Cache
from clozeline.model.scoring.batches import check_lengths, find_head


class IncrementalDecoder:
    """The next-token scores of growing rows, which shrink to the rows that continue.

    Arguments and errors are those of `generate`; `tokens` is the maximum number of new tokens per
    row.
    """

    scores: Tensor
    """scores of the next token, fp32 [rows, V]"""

    def __init__(
        self,
        model: Model,
        prompts: Sequence[Sequence[int]],
        decoder_start: int | Sequence[int] | None,
        prefix: bool,
        tokens: int,
    ) -> None:
        self._model = model
        _, self._head = find_head(model, "lm", "continuations")
        start = [decoder_start] if isinstance(decoder_start, int) else decoder_start
        self._text = _text_to_continue(model, start)
        self.limit = model.position_limit
        self.prompts = [list(start or prompt) for prompt in prompts]
        """tokens before the new ones of each row"""
        tensors = _first_step(model, prompts, start, prefix)
        self._positions = tensors[self._text.lengths.name]
        self._prefix = tensors.get("prefix_length")
        self._rows = [list(row) for row in self.prompts]
        self._short = _max_short_length(model)
        self._was_long = self._is_long()
        self._cache = Cache(
            model.adapters.positions + tensors[self._text.ids.name].shape[1] + tokens
        )

        self._read(tensors, self._positions - 1)

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows in this order; a row may occur several times."""
        index = torch.tensor(rows, device=self._positions.device)
        self._cache.select(index)
        self.scores = self.scores[index]
        self._positions = self._positions[index]
        self._prefix = None if self._prefix is None else self._prefix[index]
        self._rows = [list(self._rows[row]) for row in rows]

    def reorder(self, rows: Sequence[int]) -> None:
        """Let each row continue another row of the same prompt."""
        self._cache.reorder(torch.tensor(rows, device=self._positions.device))
        self._rows = [list(self._rows[row]) for row in rows]

    def add(self, tokens: Sequence[int]) -> None:
        """Read the next token of each row.

        Where longrope's frequencies change, read all tokens of all rows again.
        """
        for row, token in zip(self._rows, tokens, strict=True):
            row.append(token)
        if self._is_long() != self._was_long:
            # the keys in the cache have other frequencies
            self._read_again()
            return

        ids = torch.tensor(tokens, device=self._positions.device)[:, None]
        tensors = {self._text.ids.name: ids, self._text.positions.name: self._positions[:, None]}
        if self._prefix is not None:
            tensors["prefix_length"] = self._prefix
        self._read(tensors, torch.zeros_like(self._positions))
        self._positions = self._positions + 1

    def _is_long(self) -> bool:
        """Return whether the longest row has longrope's frequencies for long rows."""
        longest = max(map(len, self._rows)) + self._model.adapters.positions
        return self._short is not None and longest > self._short

    def _read_again(self) -> None:
        """Read all tokens of all rows: the cached keys were rotated by other frequencies."""
        self._was_long = self._is_long()
        tensors = {
            name: tensor.to(self._positions.device)
            for name, tensor in _pad_prompts(self._rows).items()
        }
        self._cache = Cache(self._cache.capacity)
        self._positions = tensors["lengths"]
        self._read(
            tensors if self._prefix is None else tensors | {"prefix_length": self._prefix},
            self._positions - 1,
        )

    def _read(self, tensors: dict[str, Tensor], last: Tensor) -> None:
        with torch.no_grad():
            hidden = self._model.family.decode(tensors, self._cache)
            self.scores = self._head.logits(
                hidden[torch.arange(len(last), device=last.device), last]
            ).float()


def _max_short_length(model: Model) -> int | None:
    """Return the length after which longrope uses its frequencies for long rows, or None."""
    scaling = model.config.position.scaling
    if scaling is None or scaling.kind != "longrope":
        return None
    if model.family.architecture != "decoder":
        expected = "set model.position.scaling.kind to another value than longrope"
        raise ConfigurationError(
            f"model.position.scaling: {expected}: the decoder of the family "
            f"'{model.config.family}' cannot read its rows again"
        )
    return scaling.original_maximum


def _text_to_continue(model: Model, start: Sequence[int] | None) -> TextFields:
    """Return the fields of the text that grows: the row, or the decoder's row."""
    has_two_rows = model.family.architecture == "encoder_decoder"
    if has_two_rows != bool(start):
        expected = "the first id of its decoder" if has_two_rows else "None"
        raise ConfigurationError(
            f"decoder_start: the family '{model.config.family}' needs {expected}, got {start}"
        )
    return DECODER_TEXT if has_two_rows else ROW_TEXT


def _first_step(
    model: Model, prompts: Sequence[Sequence[int]], start: Sequence[int] | None, prefix: bool
) -> dict[str, Tensor]:
    """Return the batch that reads the prompts."""
    for number, prompt in enumerate(prompts):
        if not prompt:
            raise BatchError(f"prompt {number}: expected one token or more, got none")

    check_lengths(model, prompts)
    tensors = _pad_prompts(prompts)

    if start:
        tensors = add_host_shapes(tensors, model.position_limit)
        tensors |= _pad_prompts([start] * len(prompts), DECODER_TEXT)
    elif prefix:
        tensors["prefix_length"] = tensors["lengths"]

    device = model.family.device
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def _pad_prompts(
    prompts: Sequence[Sequence[int]], text: TextFields = ROW_TEXT
) -> dict[str, Tensor]:
    """Pad rows on the right; no token reads the padding, so its id does not matter."""
    rows = [torch.tensor(list(prompt), dtype=torch.int64) for prompt in prompts]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return {
        text.ids.name: ids,
        text.positions.name: torch.arange(ids.shape[1])[None],
        text.lengths.name: torch.tensor([len(prompt) for prompt in prompts]),
    }
