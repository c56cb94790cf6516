"""Rules about the next token of a row and its end: penalty, bans, end tokens and stop strings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clozeline.errors import BatchError
from clozeline.model.generation.decoding import Decoding, Stop


@dataclass
class Row:
    """A row that grows until it has `room` new tokens, for the reason `full`, or ends earlier."""

    number: int
    """in the order of the prompts"""
    prompt: list[int]
    """tokens that its new ones follow"""
    room: int
    full: Stop
    ids: list[int]
    """new tokens"""
    score: float = 0.0
    """sum of their log-probabilities"""

    @staticmethod
    def of(number: int, prompt: Sequence[int], max_tokens: int, limit: int | None) -> Row:
        """Return a row without new tokens; the last new one is not read, so that it needs no place in the table."""
        places = max_tokens if limit is None else limit - len(prompt) + 1
        if places < max_tokens:
            return Row(number, list(prompt), places, "positions", [])
        return Row(number, list(prompt), max_tokens, "max_tokens", [])


@dataclass(frozen=True)
class Rules:
    """Rules of a generation, the same for all rows."""

    decoding: Decoding
    end_ids: Collection[int] = ()
    banned: Sequence[Sequence[int]] = ()
    """sequences of tokens that may not come"""
    finishes: Callable[[list[int]], bool] | None = None
    """says of new tokens whether their text holds a stop string"""

    def adjust(self, scores: Tensor, rows: Sequence[Row]) -> Tensor:
        """Return the scores [rows, V] from which tokens are chosen: the repetition penalty first, then the bans."""
        adjusted = scores
        if self.decoding.repetition_penalty != 1:
            adjusted = torch.stack(
                [
                    penalize_repetition(one, {*row.prompt, *row.ids}, self.decoding.repetition_penalty)
                    for one, row in zip(adjusted, rows, strict=True)
                ]
            )
        places = [(at, token) for at, row in enumerate(rows) for token in self._bans(row)]
        if places:
            index = torch.tensor(places, device=scores.device).T
            adjusted = adjusted.index_put((index[0], index[1]), adjusted.new_tensor(-torch.inf))
        return adjusted

    def stop_of(self, row: Row, ids: list[int]) -> Stop | None:
        """Return why a row ends with these new tokens, the newest included; None: it grows."""
        if ids[-1] in self.end_ids:
            return "end"
        if self.finishes is not None and self.finishes(ids):
            return "string"
        return row.full if len(ids) == row.room else None

    def _bans(self, row: Row) -> Iterator[int]:
        history = [*row.prompt, *row.ids]
        if len(row.ids) < self.decoding.min_tokens:
            yield from self.end_ids
        if self.decoding.no_repeat_ngram:
            yield from ngram_bans(history, self.decoding.no_repeat_ngram)
        for *before, last in self.banned:
            if history[len(history) - len(before) :] == before:
                yield last


def refuse_dead_ends(best: Tensor, rows: Sequence[Row]) -> None:
    """Check the largest score of each row.

    Raises:
        BatchError: one is no number, or -inf: every token of the row is banned.
    """
    if not bool(best.isfinite().all()):
        at = int((~best.isfinite()).nonzero()[0])
        wrong = "every token is banned: allow more" if best[at] == -torch.inf else "the model's scores are not numbers"
        raise BatchError(f"prompt {rows[at].number}: nothing can follow {len(rows[at].ids)} new tokens, {wrong}")


def penalize_repetition(scores: Tensor, seen: Collection[int], penalty: float) -> Tensor:
    """Return scores [V] in which those of seen tokens are divided by the penalty, or multiplied where negative.

    Example:
        >>> penalize_repetition(torch.tensor([3.0, -1.0, 0.5]), {0, 1}, 2.0).tolist()
        [1.5, -2.0, 0.5]
    """
    index = torch.tensor(sorted(seen), dtype=torch.int64, device=scores.device)
    found = scores[index]
    return scores.index_copy(0, index, torch.where(found > 0, found / penalty, found * penalty))


def ngram_bans(history: Sequence[int], length: int) -> Iterator[int]:
    """Yield the tokens that would complete a sequence of `length` tokens that a row holds already.

    Example:
        >>> list(ngram_bans([5, 6, 7, 5, 6], 3))
        [7]
    """
    before = list(history[len(history) - length + 1 :])
    for start in range(len(history) - length + 1):
        if list(history[start : start + length - 1]) == before:
            yield history[start + length - 1]
