"""Configuration of what a run does after a divergence."""

from typing import Annotated

from pydantic import Field

from clozeline.configuration.config import config_class


@config_class
class DivergenceConfig:
    """Return to an earlier checkpoint after a divergence, and go on from there in the same process."""

    rollback: Annotated[int, Field(ge=1)] = 1
    """checkpoint to return to, counted back from the divergence: 1 is the newest one from before the last good step"""
    skip_rows: bool = True
    """do not read again the rows between that checkpoint and the divergence; false repeats the same steps, which helps
    only after a fault of the hardware"""
    max_rollbacks: Annotated[int, Field(ge=1)] = 3
    """rollbacks of a run, over all of its starts; a further divergence ends it with exit code 76"""
    spikes: Annotated[int, Field(ge=1, le=50)] | None = None
    """records in a row whose loss is a spike by log.spike that count as a divergence, too; null: none"""

    def check(self, *, max_skips: int, save_every: int | None, keep_last: int, log_every: int, spike: bool) -> None:
        """Check that a checkpoint from before a divergence is kept until the divergence is noticed."""
        if self.spikes is not None and not spike:
            raise ValueError("on_divergence.spikes: counts spikes of the loss, which log.spike=null does not detect")
        if save_every is None:
            raise ValueError("on_divergence: returns to a checkpoint: expected checkpoint.every, got null")
        # saves that may come between the last good checkpoint and the end of the longest divergence
        steps = max(max_skips, 0 if self.spikes is None else self.spikes * log_every)
        saves = steps // save_every
        if keep_last < (needed := self.rollback + 1 + saves):
            why = f"rollback {self.rollback}, and {saves} saves in the {steps} steps of a divergence"
            raise ValueError(f"checkpoint.keep_last: on_divergence needs {needed} or more ({why}), got {keep_last}")
