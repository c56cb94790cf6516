"""Configure the records and the profile of a run, and its reaction to a divergence."""

from typing import Annotated, Literal

from pydantic import Field

from clozeline.configuration.config import Positive, config_class
from clozeline.configuration.described_keys import Common


@config_class
class LogConfig:
    """Records of a run."""

    every: Annotated[int, Field(ge=1), Common()] = 1
    """steps between records in metrics.jsonl"""
    tensorboard: bool = True
    """also write TensorBoard event files"""
    tracker: Annotated[Literal["wandb"] | None, Common()] = None
    """also log to Weights & Biases, which must be installed; null: only to files"""
    spike: Annotated[float, Field(gt=0.0)] | None = 6.0
    """report a loss or gradient norm this many robust standard deviations above the recent ones as
    a spike, with its rows; null: never"""


@config_class
class ProfileConfig:
    """The steps that are profiled."""

    first: Annotated[int, Field(alias="from", ge=1)]
    """first profiled step; choose one after the warm-up of the first few"""
    steps: Positive = 5
    """number of profiled steps; each takes longer than usual, and some MB of the trace"""

    @property
    def last(self) -> int:
        """Last profiled step."""
        return self.first + self.steps - 1

    def check(self, steps: int) -> None:
        """Check that a run of `steps` steps contains all of them."""
        if self.last > steps:
            raise ValueError(
                f"profile: steps {self.first} to {self.last} cannot be profiled in a run of "
                f"{steps} steps: lower profile.from, or raise steps"
            )


@config_class
class DivergenceConfig:
    """Return to an earlier checkpoint after a divergence, and continue in the same process."""

    rollback: Positive = 1
    """checkpoint to return to, counted back from the divergence: 1 is the newest one from before
    the last good step"""
    skip_rows: bool = True
    """do not read again the rows between that checkpoint and the divergence; false repeats the same
    steps, which helps only after a fault of the hardware"""
    max_rollbacks: Positive = 3
    """rollbacks of a run, over all of its starts; a further divergence ends it with exit code 76"""
