"""Early exit: a classifier after every layer of a head, at which rows may leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from clozeline.configuration.added_keys import SingleValue
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.head_keys import HeadKey

if TYPE_CHECKING:  # a configuration needs no torch
    from torch import Tensor

    from clozeline.model.families import ModelFamily
    from clozeline.model.heads import Head
    from clozeline.model.loss import Loss


@dataclass(frozen=True)
class ExitsConfig(SingleValue, HeadKey):
    """A classifier after every layer, at which rows may leave.

    joint: all train with the body, on the mean of their losses weighted by layer number (PABEE,
    arXiv 2006.04152); after: they train on the frozen body and head of model.init_from (DeeBERT,
    arXiv 2004.12993).
    """

    value: Literal["joint", "after"]

    modules = ("off_ramps",)
    lacking = "the off-ramps of {}: no row can leave early"

    @property
    def frozen(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("(?!.*off_ramps).*",) if self.value == "after" else ()

    def check(self, options: Any) -> None:
        if options.multi_label:
            raise ValueError("exits: a row leaves with one class: remove multi_label")
        if options.scalar_mix:
            raise ValueError("exits: a row leaves from a single layer: remove scalar_mix")

    def check_run(self, head: str, run: Any) -> None:
        """Refuse to train off-ramps alone unless the body and the head under them are trained."""
        model = run.model
        if self.value == "after" and (
            model.init_from is None or model.adapter is not None or len(model.heads) > 1
        ):
            raise ConfigurationError(
                f"{head}.exits: after trains classifiers on a frozen body and head: set "
                "model.init_from to a run that was fine-tuned with only this head, without "
                "model.adapter; or set it to joint"
            )

    def extend(self, head: Head, family: ModelFamily, copy: Callable[[], Head]) -> None:
        from torch import nn

        key = f"model.heads.{head.key()}.exits"
        family.find_body(key)
        layers = family.config.layers
        if layers < 2:
            raise ConfigurationError(f"{key}: expected two layers or more, got {layers}")
        head.off_ramps = nn.ModuleList(copy() for _ in range(layers - 1))

    def loss(self, head: Head, states: Sequence[Tensor], tensors: Mapping[str, Tensor]) -> Loss:
        """Return the loss of the head and its off-ramps, which read one state [B, T, dim] each.

        joint: sum_j j L_j / sum_j j over all of them. Otherwise the sum over the off-ramps, and
        only they get a gradient.
        """
        import torch

        from clozeline.model.loss import Loss

        *earlier, last = states
        joint = self.value == "joint"

        # the head's own loss at the last layer comes after those of the off-ramps
        ramps = zip(cast("Iterable[Head]", head.off_ramps), earlier, strict=True)
        final = head.loss(last, tensors)
        totals = [
            ramp.loss(state if joint else state.detach(), tensors).total for ramp, state in ramps
        ]
        losses = torch.stack([*totals, final.total])

        # deeper classifiers weigh more (PABEE)
        depths = torch.arange(1, len(losses) + 1, device=losses.device)
        total = (losses * depths).sum() / depths.sum() if joint else torch.stack(totals).sum()
        metrics = dict(zip(self.figures(len(losses)), losses.detach(), strict=True))
        return Loss(total, final.divisor, {**final.metrics, **metrics})

    def figures(self, layers: int) -> Sequence[str]:
        """Return the names of the losses of off-ramps and head, in the order of the layers."""
        return [f"exit_{depth}" for depth in range(1, layers + 1)]
