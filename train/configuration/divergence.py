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
