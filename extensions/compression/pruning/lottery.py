"""Lottery tickets (arXiv 2007.12223): rounds of pruning, each from the pre-trained weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

from clozeline.configuration.config import Positive, config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.compression.pruning._masked_weights import (
    MASK,
    MaskedWeights,
    MaskTarget,
)
from clozeline.extensions.compression.selection import Sparsity
from clozeline.model.configuration.capabilities import EARLIER_WEIGHTS, OWN_HISTORY


class LotteryPruning(MaskedWeights):
    """Train, set the smallest |w| to 0, rewind the other weights to `model.init_from`, and repeat.

    After round r of R, a share of r / R · `sparsity` of the weights is 0. A rewind sets all
    parameters, including heads, to their initial values, and the optimizer's states to 0; the
    learning-rate schedule goes on, so choose a constant one. The steps after the last round train
    the ticket.
    """

    options: Options
    published_result = (
        "BERT: subnetworks with 40 % to 90 % zeros match the full accuracy of a task (2007.12223)"
    )
    keys = frozenset({MASK, "origin"})
    needs = MaskedWeights.needs | {EARLIER_WEIGHTS, OWN_HISTORY}

    @config_class
    class Options:
        """Final share of zeros, and the rounds."""

        sparsity: Sparsity = 0.7
        """final share of the weights that are 0, over all matrices, in (0, 1)"""
        rounds: Positive = 7
        """rounds of training, pruning and rewinding"""
        every: Positive
        """steps per round"""
        parameters: tuple[str, ...] = ()
        """regular expressions for full names of the matrices to prune; default: the linear maps of
        all layers"""

    def describe_plan(self, horizon: int) -> str:
        options = self.options
        last = options.rounds * options.every
        if last >= horizon:
            raise ConfigurationError(
                f"prune: rounds x every: expected fewer than {horizon} steps, the last step of the "
                f"schedule (schedule.steps, by default steps), got {last}: no step would train the "
                "ticket"
            )
        share = f"{100 * options.sparsity:g} % of them by magnitude"
        return f"{share}, in {options.rounds} rounds of {options.every} steps with rewinds"

    def new_states(self, weights: Tensor, *, masked: bool) -> dict[str, Tensor]:
        return {**super().new_states(weights, masked=masked), "origin": weights.clone()}

    def mask_target(self, step: int) -> MaskTarget | None:
        options = self.options
        round_number, steps_into_round = divmod(step, options.every)
        if steps_into_round or not 1 <= round_number <= options.rounds:
            return None
        return MaskTarget(options.sparsity * round_number / options.rounds, "global")

    def after_masking(
        self, weights: Tensor, states: Mapping[str, Tensor], moments: Iterable[Tensor]
    ) -> None:
        """Rewind to the initial weights."""
        weights.copy_(states["origin"])
        for moment in moments:
            moment.zero_()
