"""Configuration of ZeRO: state partitioned over the ranks, and offloaded to the host."""

from typing import Annotated, Literal

from clozeline.configuration.config import Natural, Positive, config_class
from clozeline.configuration.described_keys import Common


@config_class
class ZeroConfig:
    """Distribution of state over the ranks by DeepSpeed's ZeRO (arXiv 1910.02054)."""

    stage: Annotated[Literal[0, 1, 2, 3], Common()] = 1
    """0: nothing, 1: optimizer state, 2: also gradients, 3: also parameters. Use 1 until memory is
    short; one rank in fp32 runs 1 and 2 as 0"""
    bucket: Positive | None = None
    """elements sent in one collective; default: twice the parameters, at stage 3 a quarter of them,
    at most 5e8"""
    persistent: Natural = 100_000
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
