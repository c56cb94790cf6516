"""The configuration of what a run records."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT


@dataclass(frozen=True, kw_only=True, config=STRICT)
class LogConfig:
    """Records that are written during the run."""

    every: Annotated[int, Field(ge=1)] = 1
    """steps between objects of metrics.jsonl"""
    seconds: Annotated[float, Field(ge=0.0)] = 10.0
    """seconds between the lines of a step that are printed where there is no terminal; 0: each record"""
    report: bool = True
    """write report.html, with curves, at the end of the run"""
    tensorboard: bool = True
    """also write TensorBoard event files"""
    tracker: Literal["wandb", "mlflow"] | None = None
    """also send figures to Weights & Biases or MLflow, which must be installed; null: to neither"""
    spike: Annotated[float, Field(gt=0.0)] | None = 6.0
    """robust standard deviations above the last records at which a loss or gradient norm is reported as a spike, with
    its rows; null: never"""
    noise_scale: bool = False
    """record the noise of the gradient, by which report.html draws the batch above which more rows hardly help; needs
    several micro-batches in a step, over all ranks"""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ProfileConfig:
    """The steps that are profiled."""

    first: Annotated[int, Field(alias="from", ge=1)]
    """first step that is profiled; later than the first few, which also warm up"""
    steps: Annotated[int, Field(ge=1)] = 5
    """steps that are profiled; each takes longer than usual, and some MB of the trace"""

    @property
    def last(self) -> int:
        """Last step that is profiled."""
        return self.first + self.steps - 1

    def check(self, steps: int) -> None:
        """Check that a run of so many steps has all of them.

        Raises:
            ValueError: it ends before.
        """
        if self.last > steps:
            raise ValueError(
                f"profile: steps {self.first} to {self.last} cannot be profiled in a run of {steps} steps: lower "
                "profile.from, or raise steps"
            )
