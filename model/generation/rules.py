"""Rules for the next token and the end of a row: penalty, bans, allowed sequences, end tokens and stop strings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import torch
from torch import Tensor

from clozeline.errors import BatchError, ConfigurationError
from clozeline.model.generation.decoding import Decoding, Stop

_Node: TypeAlias = dict[int, "_Node"]
_END: Final = -1
"""key of nodes at which a sequence is complete; no token has this id"""


class AllowedSequences:
    """A trie of token sequences: the only ones that a generation may write, each followed by an end token.

    The end token decides between a sequence and its extensions, and makes the probabilities of the
    sequences those of different events. Calling it returns the tokens that may follow, as
    `prefix_allowed_tokens_fn` of transformers does.

    Raises:
        ConfigurationError: no sequence is given, one is empty, or the model has no end token.

    Example:
        >>> allowed = AllowedSequences([[5, 6], [5, 6, 7], [8]], end_ids={2})
        >>> sorted(allowed([])), sorted(allowed([5])), sorted(allowed([5, 6]))
        ([5, 8], [6], [2, 7])
    """

    def __init__(self, sequences: Collection[Sequence[int]], end_ids: Collection[int]) -> None:
        if not end_ids:
            raise ConfigurationError(
                "allowed: the tokenizer has no end token, by which an allowed text would end"
            )
        if not sequences or not all(sequences):
            raise ConfigurationError("allowed: expected texts of at least one token each")
        self.longest = 1 + max(map(len, sequences))
        """tokens of the longest sequence and its end"""
        self._end_ids = frozenset(end_ids)
        self._root: _Node = {}
        for sequence in sequences:
            node = self._root
            for token in sequence:
                node = node.setdefault(token, {})
            node[_END] = {}

    def __call__(self, ids: Sequence[int]) -> Collection[int]:
        """Return the tokens that may follow these new tokens; none after a sequence that is not allowed."""
        node = self._root
        for token in ids:
            node = node.get(token, {})
        following = {*node} - {_END}
        return following | self._end_ids if _END in node else following


@dataclass
class Row:
    """A row that grows to `room` new tokens, and then ends for the reason `full`, unless it ends earlier."""

    number: int
    """index of the prompt"""
    prompt: list[int]
    """tokens before the new ones"""
    room: int
    full: Stop
    ids: list[int]
    """new tokens"""
    score: float = 0.0
    """sum of their log-probabilities"""

    @staticmethod
    def of(number: int, prompt: Sequence[int], max_tokens: int, limit: int | None) -> Row:
        """Return a row without new tokens; the last new token is never read, so it needs no position in the table."""
        positions = max_tokens if limit is None else limit - len(prompt) + 1
        if positions < max_tokens:
            return Row(number, list(prompt), positions, "positions", [])
        return Row(number, list(prompt), max_tokens, "max_tokens", [])


@dataclass(frozen=True)
class Rules:
    """Rules of a generation, the same for all rows."""

    decoding: Decoding
    end_ids: Collection[int] = ()
    banned: Sequence[Sequence[int]] = ()
    """forbidden token sequences"""
    finishes: Callable[[list[int]], bool] | None = None
    """tells whether the text of new tokens holds a stop string"""
    allowed: AllowedSequences | None = None
    """the only sequences of new tokens"""

    def adjust(self, scores: Tensor, rows: Sequence[Row]) -> Tensor:
        """Apply the repetition penalty, then the bans and the allowed sequences, to the scores [rows, V]."""
        adjusted = scores
        if self.decoding.repetition_penalty != 1:
            penalty = self.decoding.repetition_penalty
            pairs = zip(scores, rows, strict=True)
            penalized = [
                penalize_repetition(own, {*row.prompt, *row.ids}, penalty) for own, row in pairs
            ]
            adjusted = torch.stack(penalized)
        positions = [(at, token) for at, row in enumerate(rows) for token in self._bans(row)]
        if positions:
            index = torch.tensor(positions, device=scores.device).T
            adjusted = adjusted.index_put((index[0], index[1]), adjusted.new_tensor(-torch.inf))
        if self.allowed is not None:
            kept = [(at, token) for at, row in enumerate(rows) for token in self.allowed(row.ids)]
            index = torch.tensor(kept, device=scores.device).T
            only = torch.full_like(adjusted, -torch.inf)
            adjusted = only.index_put((index[0], index[1]), adjusted[index[0], index[1]])
        return adjusted

    def stop_of(self, row: Row, ids: list[int]) -> Stop | None:
        """Return why a row ends with these new tokens; None: it continues."""
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


def refuse_short_room(rules: Rules, rows: Sequence[Row]) -> None:
    """Raise a BatchError if a row has no room for the longest of the allowed sequences."""
    for row in rows:
        if rules.allowed is not None and row.room < rules.allowed.longest:
            way_out = "raise max_tokens" if row.full == "max_tokens" else "shorten the prompt"
            raise BatchError(
                f"allowed: the longest text has {rules.allowed.longest} tokens with its end, and "
                f"prompt {row.number} "
                f"has room for {row.room}: {way_out}"
            )


def refuse_dead_ends(best: Tensor, rows: Sequence[Row]) -> None:
    """Raise a BatchError if the largest score of a row is not a number, or -inf: every token is banned."""
    if not bool(best.isfinite().all()):
        at = int((~best.isfinite()).nonzero()[0])
        wrong = (
            "every token is banned: allow more"
            if best[at] == -torch.inf
            else "the model's scores are not numbers"
        )
        raise BatchError(
            f"prompt {rows[at].number}: nothing can follow {len(rows[at].ids)} new tokens, {wrong}"
        )


def penalize_repetition(scores: Tensor, seen: Collection[int], penalty: float) -> Tensor:
    """Divide the scores [V] of seen tokens by the penalty, or multiply negative ones by it.

    Example:
        >>> penalize_repetition(torch.tensor([3.0, -1.0, 0.5]), {0, 1}, 2.0).tolist()
        [1.5, -2.0, 0.5]
    """
    index = torch.tensor(sorted(seen), dtype=torch.int64, device=scores.device)
    repeated = scores[index]
    return scores.index_copy(
        0, index, torch.where(repeated > 0, repeated / penalty, repeated * penalty)
    )


def ngram_bans(history: Sequence[int], length: int) -> Iterator[int]:
    """Yield the tokens that would complete an n-gram that the row already holds.

    Example:
        >>> list(ngram_bans([5, 6, 7, 5, 6], 3))
        [7]
    """
    end = len(history) - length + 1
    for start in range(end):
        if history[start : start + length - 1] == history[end:]:
            yield history[start + length - 1]
