"""Configuration of what a run records and profiles."""

from typing import Annotated, Literal

from pydantic import Field

from clozeline.configuration.config import config_class


@config_class
class LogConfig:
    """Records of a run."""

    every: Annotated[int, Field(ge=1)] = 1
    """steps between records in metrics.jsonl"""
    tensorboard: bool = True
    """also write TensorBoard event files"""
    tracker: Literal["wandb", "mlflow"] | None = None
    """also log to Weights & Biases or MLflow, which must be installed; null: neither"""
    spike: Annotated[float, Field(gt=0.0)] | None = 6.0
    """report a loss or gradient norm this many robust standard deviations above the recent ones as a spike, with its
    rows; null: never"""


@config_class
class ProfileConfig:
    """The steps that are profiled."""

    first: Annotated[int, Field(alias="from", ge=1)]
    """first profiled step; choose one after the warm-up of the first few"""
    steps: Annotated[int, Field(ge=1)] = 5
    """number of profiled steps; each takes longer than usual, and some MB of the trace"""

    @property
    def last(self) -> int:
        """Last profiled step."""
        return self.first + self.steps - 1

    def check(self, steps: int) -> None:
        """Check that a run of `steps` steps contains all of them."""
        if self.last > steps:
            where = f"steps {self.first} to {self.last} cannot be profiled in a run of {steps} steps"
            raise ValueError(f"profile: {where}: lower profile.from, or raise steps")
