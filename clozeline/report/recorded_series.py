"""Declare numbers in the records of a run, and how reports draw them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from clozeline.configuration.config import config_class


@config_class
class RecordedSeries:
    """A number that records may hold, drawn as a chart over steps."""

    name: Annotated[str, Field(min_length=1)]
    """title of the chart, with a capital letter"""
    keys: Annotated[tuple[str, ...], Field(min_length=1)]
    """keys that lead to it in a record, the outermost first"""
    unit: str = ""
    """unit of the drawn values"""
    factor: float = 1.0
    """factor of the number"""
    headline: bool = False
    """true if the last value is also one of the run's headline figures, and in its status"""

    @property
    def title(self) -> str:
        """The title of the chart."""
        unit = f" ({self.unit})" if self.unit else ""
        return f"{self.name}{unit}"

    @property
    def label(self) -> str:
        """The name, for use within a sentence."""
        return f"{self.name[0].lower()}{self.name[1:]}"

    def points(self, records: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
        """Return (step, value), for the records that hold the number."""
        return [
            (step, value if self.factor == 1.0 else value * self.factor)
            for step, value in read_points(records, "step", *self.keys)
        ]


def read_points(
    records: Sequence[Mapping[str, Any]], axis: str, *keys: str
) -> list[tuple[float, float]]:
    """Return (x, value) of the records with numbers for both."""
    points: list[tuple[float, float]] = []
    for record in records:
        value: Any = record
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        x = record.get(axis)
        if isinstance(value, int | float) and isinstance(x, int | float):
            points.append((x, value))
    return points
