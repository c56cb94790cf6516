"""Lottery tickets (arXiv 2007.12223): prune by magnitude in rounds, each from the pre-trained weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.compression.methods._selection import Sparsity
from clozeline.train.compression.pruning._pruning import CONFLICTS, MASK, MaskedWeights
from clozeline.train.hooks import Step


class Lottery(MaskedWeights):
    """Train, set the smallest |w| to 0, rewind the other weights to `model.init_from`, and repeat.

    After round r of R the share r / R · `sparsity` is 0. A rewind sets all parameters, heads included, to their initial
    values, and the states of the optimizer to 0; the learning-rate schedule goes on, so choose a constant one. The
    steps after the last round train the ticket.
    """

    options: Options
    claim: ClassVar = "BERT: subnetworks with 40 % to 90 % zeros match the full accuracy of a task (2007.12223)"
    keys: ClassVar = frozenset({MASK, "origin"})
    conflicts: ClassVar = {
        **CONFLICTS,
        "no model.init_from": "it rewinds to pre-trained weights, not to random ones",
        "optimizer.statistics": "a rewind sets elementwise states to 0; choose adamw",
    }

    @config_class
    class Options:
        """Final share of zeros, and the rounds."""

        sparsity: Sparsity = 0.7
        """final share of the weights that are 0, of all matrices together, in (0, 1)"""
        rounds: Annotated[int, Field(ge=1)] = 7
        """rounds of training, pruning and rewinding"""
        every: Annotated[int, Field(ge=1)]
        """steps of a round"""
        parameters: tuple[str, ...] = ()
        """regular expressions for full names of the matrices to prune; default: the linear maps of all layers"""

    def describe_plan(self, horizon: int) -> str:
        options = self.options
        last = options.rounds * options.every
        if last >= horizon:
            raise ConfigurationError(
                f"prune: expected fewer than {horizon} steps in rounds x every, the last step of the schedule "
                f"(schedule.steps, by default steps), got {last}: no step would train the ticket"
            )
        share = f"{100 * options.sparsity:g} % of them by magnitude"
        return f"{share}, in {options.rounds} rounds of {options.every} steps with rewinds"

    def new_states(self, flat: Tensor, *, masked: bool) -> dict[str, Tensor]:
        return {**super().new_states(flat, masked=masked), "origin": flat.detach().clone()}

    @torch.no_grad()
    def end(self, step: Step, norm: float) -> Mapping[str, Any]:
        options = self.options
        index, rest = divmod(step.index, options.every)
        if rest or not 1 <= index <= options.rounds:
            return {}
        self.mask_smallest(options.sparsity * index / options.rounds, "global")
        for flat, own in self.of.items():
            flat.copy_(own["origin"])
            for state in self._trained.optimizer.state.get(flat, {}).values():
                if isinstance(state, Tensor):
                    state.zero_()
        self.apply()
        return {}
