"""Configuration of ZeRO: state partitioned over the ranks, and offloaded to the host."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.configuration.described_keys import Common
from clozeline.train.registries import OptimizerComponent


@config_class
class ZeroConfig:
    """Distribution of state over the ranks by DeepSpeed's ZeRO (arXiv 1910.02054)."""

    stage: Annotated[Literal[0, 1, 2, 3], Common()] = 1
    """0: nothing, 1: optimizer state, 2: also gradients, 3: also parameters. Use 1 until memory is
    short; one rank in fp32 runs 1 and 2 as 0"""
    bucket: Annotated[int, Field(ge=1)] | None = None
    """elements sent in one collective; default: twice the parameters, at stage 3 a quarter of them,
    at most 5e8"""
    persistent: Annotated[int, Field(ge=0)] = 100_000
    """stage 3: parameters with at most this many elements are not partitioned"""
    offload: Literal["none", "optimizer", "parameters"] = "none"
    """state to keep and update on the host (arXiv 2101.06840): optimizer from stage 1 on, also
    parameters at stage 3; for elementwise optimizers such as adamw"""

    def __post_init__(self) -> None:
        least = {"none": 0, "optimizer": 1, "parameters": 3}[self.offload]
        if self.stage < least:
            raise ValueError(
                f"zero.offload: {self.offload} needs zero.stage {least} or more, got {self.stage}"
            )

    def check_offload(
        self, optimizer: OptimizerComponent, precision: str, incompatible: Sequence[str]
    ) -> None:
        """Check that offloading was tested with this optimizer, precision and other keys."""
        if self.offload == "none":
            return
        if optimizer.type.statistics != "element" or optimizer.type.needs_heldout_losses:
            raise ValueError(
                f"zero.offload: the update of {optimizer.name} needs more than an element and its "
                "history: choose adamw, or remove the key"
            )

        if incompatible:
            raise ValueError(
                f"zero.offload: cannot be combined with {incompatible[0]}: remove one of the two"
            )

        if precision == "bf16" and self.stage == 1:
            raise ValueError(
                "zero.offload: stage 1 in bf16 would accumulate gradients differently: set "
                "zero.stage=2"
            )
