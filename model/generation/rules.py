"""Rules for the next token and the end of a row: penalties, bans, allowed texts, stops."""

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
    """A trie of the only token sequences that a generation may write, each with an end token.

    The end token decides between a sequence and its extensions, so the probabilities of all
    sequences belong to different events. Calling it returns the tokens that may follow, as
    `prefix_allowed_tokens_fn` of transformers does.

    Raises:
        ConfigurationError: there is no sequence, or an empty one, or the model has no end token.

    Example:
        >>> allowed = AllowedSequences([[5, 6], [5, 6, 7], [8]], end_ids={2})
        >>> sorted(allowed([])), sorted(allowed([5])), sorted(allowed([5, 6]))
        ([5, 8], [6], [2, 7])
    """

    def __init__(self, sequences: Collection[Sequence[int]], end_ids: Collection[int]) -> None:
        if not end_ids:
            raise ConfigurationError(
                "allowed: the tokenizer has no end token, which is needed after an allowed text"
            )

        if not sequences or not all(sequences):
            raise ConfigurationError("allowed: expected texts of one token or more")
        self.longest = 1 + max(map(len, sequences))
        """number of tokens of the longest sequence, including its end"""
        self._end_ids = frozenset(end_ids)
        self._root: _Node = {}

        for sequence in sequences:
            node = self._root
            for token in sequence:
                node = node.setdefault(token, {})
            node[_END] = {}

    def __call__(self, ids: Sequence[int]) -> Collection[int]:
        """Return the tokens that may follow these new tokens; empty after a forbidden sequence."""
        node = self._root
        for token in ids:
            node = node.get(token, {})
        following = {*node} - {_END}
        return following | self._end_ids if _END in node else following


@dataclass
class GrowingRow:
    """A row that grows to `max_new_tokens`, and then ends for the reason `full`."""

    number: int
    """index of the prompt"""
    prompt: list[int]
    """tokens before the new ones"""
    max_new_tokens: int
    full: Stop
    ids: list[int]
    """new tokens"""
    score: float = 0.0
    """sum of the log-probabilities of the new tokens"""

    @staticmethod
    def start(number: int, prompt: Sequence[int], max_tokens: int, limit: int | None) -> GrowingRow:
        """Return a row without new tokens.

        The last new token is never read, so it needs no position in the table.
        """
        positions = max_tokens if limit is None else limit - len(prompt) + 1
        if positions < max_tokens:
            return GrowingRow(number, list(prompt), positions, "positions", [])
        return GrowingRow(number, list(prompt), max_tokens, "max_tokens", [])


@dataclass(frozen=True)
class Rules:
    """Rules of a generation, the same for all rows."""

    decoding: Decoding
    end_ids: Collection[int] = ()
    banned: Sequence[Sequence[int]] = ()
    """forbidden token sequences"""
    finishes: Callable[[list[int]], bool] | None = None
    """whether the text of new tokens contains a stop string"""
    allowed: AllowedSequences | None = None
    """the only allowed sequences of new tokens"""

    def adjust(self, scores: Tensor, rows: Sequence[GrowingRow]) -> Tensor:
        """Apply repetition penalty, bans and allowed sequences to the scores [rows, V]."""
        adjusted = scores

        if self.decoding.repetition_penalty != 1:
            penalty = self.decoding.repetition_penalty
            pairs = zip(scores, rows, strict=True)
            penalized = [
                penalize_repetition(row_scores, {*row.prompt, *row.ids}, penalty)
                for row_scores, row in pairs
            ]
            adjusted = torch.stack(penalized)

        # (row, token) pairs that are forbidden, then pairs that are allowed
        positions = [(index, token) for index, row in enumerate(rows) for token in self._bans(row)]
        if positions:
            index = torch.tensor(positions, device=scores.device).T
            adjusted = adjusted.index_put((index[0], index[1]), adjusted.new_tensor(-torch.inf))

        if self.allowed is not None:
            allowed = [
                (number, token)
                for number, row in enumerate(rows)
                for token in self.allowed(row.ids)
            ]
            index = torch.tensor(allowed, device=scores.device).T
            only = torch.full_like(adjusted, -torch.inf)
            adjusted = only.index_put((index[0], index[1]), adjusted[index[0], index[1]])

        return adjusted

    def stop_of(self, row: GrowingRow, ids: list[int]) -> Stop | None:
        """Return why a row ends with these new tokens; None: it continues."""
        if ids[-1] in self.end_ids:
            return "end"
        if self.finishes is not None and self.finishes(ids):
            return "string"
        return row.full if len(ids) == row.max_new_tokens else None

    def _bans(self, row: GrowingRow) -> Iterator[int]:
        history = [*row.prompt, *row.ids]
        if len(row.ids) < self.decoding.min_tokens:
            yield from self.end_ids
        if self.decoding.no_repeat_ngram:
            yield from ngram_bans(history, self.decoding.no_repeat_ngram)
        for *before, last in self.banned:
            if history[len(history) - len(before) :] == before:
                yield last


def check_allowed_lengths(rules: Rules, rows: Sequence[GrowingRow]) -> None:
    """Raise BatchError if the longest allowed sequence does not fit into a row."""
    for row in rows:
        if rules.allowed is not None and row.max_new_tokens < rules.allowed.longest:
            remedy = "raise max_tokens" if row.full == "max_tokens" else "shorten the prompt"
            raise BatchError(
                f"allowed: the longest text has {rules.allowed.longest} tokens with its end, but "
                f"only {row.max_new_tokens} fit after prompt {row.number}: {remedy}"
            )


def check_next_tokens(best: Tensor, rows: Sequence[GrowingRow]) -> None:
    """Raise BatchError if the best score of a row is not a number, or -inf: all are banned."""
    if not bool(best.isfinite().all()):
        index = int((~best.isfinite()).nonzero()[0])
        reason = (
            "every token is banned: allow more"
            if best[index] == -torch.inf
            else "the model's scores are not numbers"
        )
        raise BatchError(
            f"prompt {rows[index].number}: no token can follow after {len(rows[index].ids)} new "
            f"tokens, {reason}"
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
    """Yield the tokens that would complete an n-gram that is already in the row.

    Example:
        >>> list(ngram_bans([5, 6, 7, 5, 6], 3))
        [7]
    """
    end = len(history) - length + 1
    for start in range(end):
        if history[start : start + length - 1] == history[end:]:
            yield history[start + length - 1]
