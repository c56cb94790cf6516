"""Beam search: keep the best `width` rows at each length."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from clozeline.model.generation.decoding import Continuation, LengthForm
from clozeline.model.generation.incremental_decoder import IncrementalDecoder
from clozeline.model.generation.rules import GrowingRow, Rules, check_next_tokens

DEFAULT_WIDTH = 4
DEFAULT_EXPONENT = 1.0
"""Width and exponent of the length penalty where the settings name none"""


def length_penalty(tokens: int, exponent: float, form: LengthForm) -> float:
    """Return the divisor of the summed log-probabilities of n tokens.

    power: n ** a; gnmt: ((5 + n) / 6) ** a.

    Example:
        >>> [round(length_penalty(n, 0.6, "gnmt"), 4) for n in (1, 10, 50)]
        [1.0, 1.7329, 3.7786]
    """
    return float((tokens if form == "power" else (5 + tokens) / 6) ** exponent)


def beam_search(
    decoder: IncrementalDecoder, rows: Sequence[GrowingRow], rules: Rules
) -> list[list[Continuation]]:
    """Return the best continuations of each row, at most `width`, best first (arXiv 1609.08144).

    At each length, a prompt keeps the `width` unfinished rows with the largest sums. A row that
    ends among the `width` best joins the finished ones, with its sum divided by the length penalty.
    The search of a prompt stops once it has `width` finished rows and no growing one can still beat
    the worst of them: a sum only falls, and the divisor is at most that of the longest row.

    Args:
        decoder: decoder that has read the prompts.
        rows: one per prompt, without new tokens.
        rules: with `width` and length penalty; a repetition penalty multiplies log-probabilities.
    """
    width = rules.decoding.width or DEFAULT_WIDTH
    candidates = width * (1 + max(1, len(rules.end_ids)))
    # every prompt starts with `width` rows, of which only the first has a sum above -inf
    growing = beams = [
        _Beams(rules, [row] + [replace(row, score=-math.inf) for _ in range(width - 1)])
        for row in rows
    ]
    decoder.select([number for number in range(len(beams)) for _ in range(width)])

    while True:
        live = [row for beam in growing for row in beam.live]
        # sums [prompts, width * V] of all continuations by one token
        scores = rules.adjust(decoder.scores.log_softmax(-1), live)
        sums = (
            scores.double()
            + scores.new_tensor([row.score for row in live], dtype=torch.float64)[:, None]
        )
        sums = sums.view(len(growing), -1)
        check_next_tokens(sums.max(-1).values, [beam.live[0] for beam in growing])

        for beam, prompt_sums in zip(growing, sums, strict=True):
            # the largest sums above -inf, largest first; ties go to the lower index
            least = prompt_sums.topk(min(candidates, len(prompt_sums))).values[-1]
            indices = ((prompt_sums >= least) & (prompt_sums > -torch.inf)).nonzero()[:, 0]
            ordered = sorted(zip((-prompt_sums[indices]).tolist(), indices.tolist(), strict=True))
            beam.grow([(-score, index) for score, index in ordered[:candidates]], scores.shape[1])
        # the cache follows the surviving rows; finished prompts leave the batch
        parents = [
            index * width + parent
            for index, beam in enumerate(growing)
            if not beam.done
            for parent in beam.parents
        ]
        if not parents:
            return [beam.finished for beam in beams]
        if len(parents) < len(live):
            decoder.select(parents)
        else:
            decoder.reorder(parents)

        growing = [beam for beam in growing if not beam.done]
        decoder.add([row.ids[-1] for beam in growing for row in beam.live])


@dataclass
class _Beams:
    """The rows of one prompt."""

    rules: Rules
    live: list[GrowingRow]
    """growing rows, largest sum first; always `width` of them, so some may have the sum -inf"""
    parents: list[int] = field(default_factory=list)
    """index of each row before it grew"""
    finished: list[Continuation] = field(default_factory=list)
    """at most `width`, best first"""
    done: bool = False

    def grow(self, candidates: Sequence[tuple[float, int]], vocabulary: int) -> None:
        """Take the best candidates, (sum, index * V + token), best first."""
        width = len(self.live)
        survivors: list[GrowingRow] = []
        parents: list[int] = []

        for rank, (score, index) in enumerate(candidates):
            parent, token = divmod(index, vocabulary)
            row = self.live[parent]
            ids = [*row.ids, token]
            stop = self.rules.stop_of(row, ids)
            if stop is not None and rank < width:
                ended = Continuation(
                    ids[:-1] if stop == "end" else ids, stop, score / self._penalty(len(ids))
                )
                self.finished = sorted([*self.finished, ended], key=lambda row: -row.score)[:width]
            elif stop is None and len(survivors) < width:
                survivors.append(replace(row, ids=ids, score=score))
                parents.append(parent)
        # fill up to `width` with copies of the best row whose sum is -inf
        self.done = not survivors or self._is_done(survivors[0])

        if not self.done:
            self.live = survivors + [replace(survivors[0], score=-math.inf)] * (
                width - len(survivors)
            )
            self.parents = parents + parents[:1] * (width - len(survivors))

    def _is_done(self, best: GrowingRow) -> bool:
        """Return whether nothing that grows from `best` can beat the worst finished row."""
        longest = best.max_new_tokens if self._exponent > 0 else len(best.ids)
        enough = len(self.finished) == len(self.live)
        return enough and best.score / self._penalty(longest) <= self.finished[-1].score

    @property
    def _exponent(self) -> float:
        exponent = self.rules.decoding.length_penalty
        return DEFAULT_EXPONENT if exponent is None else exponent

    def _penalty(self, tokens: int) -> float:
        return length_penalty(tokens, self._exponent, self.rules.decoding.length_form)
