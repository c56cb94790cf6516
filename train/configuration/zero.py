"""The keys of ZeRO: what is spread over the ranks, and what is kept in the memory of the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.registry import Chosen


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ZeroConfig:
    """Distribution of state over the ranks by DeepSpeed's ZeRO (arXiv 1910.02054)."""

    stage: Literal[0, 1, 2, 3] = 1
    """0 nothing, 1 optimizer state, 2 also gradients, 3 also parameters; 1 is right until memory is short. One rank in
    fp32 runs 1 and 2 as 0"""
    bucket: Annotated[int, Field(ge=1)] | None = None
    """elements sent in one collective; default: twice the parameters, at stage 3 a quarter of them, at most 5e8"""
    persistent: Annotated[int, Field(ge=0)] = 100_000
    """stage 3: parameters with at most this many elements stay whole on every rank: no gathering"""
    offload: Literal["none", "optimizer", "parameters"] = "none"
    """state that is in the memory of the host, which also does the update (arXiv 2101.06840): optimizer from stage 1
    on, parameters as well at stage 3; for optimizers whose update of an element needs that element alone"""

    def __post_init__(self) -> None:
        least = {"none": 0, "optimizer": 1, "parameters": 3}[self.offload]
        if self.stage < least:
            raise ValueError(f"zero.offload: {self.offload} needs zero.stage {least} or more, got {self.stage}")

    def check_offload(self, optimizer: Chosen, precision: str, incompatible: Sequence[str]) -> None:
        """Check that the host does the same update as the device would, as far as that was measured.

        Args:
            optimizer: of the run.
            precision: of the run.
            incompatible: keys that are set and with which it was not measured, or failed.

        Raises:
            ValueError: it does not, or it was not measured.
        """
        if self.offload == "none":
            return
        if optimizer.type.statistics != "element" or optimizer.type.follows_heldout:
            raise ValueError(
                f"zero.offload: the update of {optimizer.name} needs more than an element and its own history: choose "
                "adamw or lion, or remove the key"
            )
        if incompatible:
            raise ValueError(f"zero.offload: does not go together with {incompatible[0]}: remove one of the two")
        if precision == "bf16" and self.stage == 1:
            raise ValueError("zero.offload: at stage 1 in bf16 gradients would be added up otherwise: set zero.stage=2")
