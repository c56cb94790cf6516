"""Numbers in the records of a run, and how a report draws them: declared where they are recorded."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from clozeline.configuration.config import config_class


@config_class
class RecordedSeries:
    """A number that each record may hold, as one chart over steps."""

    name: Annotated[str, Field(min_length=1)]
    """what is drawn, with a capital letter"""
    keys: Annotated[tuple[str, ...], Field(min_length=1)]
    """where a record holds it, the outermost key first"""
    unit: str = ""
    """unit of what is drawn"""
    factor: float = 1.0
    """what the number is multiplied by"""
    per: tuple[str, ...] = ()
    """where a record holds its divisor; none: the number itself is drawn"""
    window: Annotated[int, Field(ge=1)] = 1
    """with `per`: consecutive records over which both are summed before the division"""
    headline: bool = False
    """the last value is one of the run's figures, too"""

    @property
    def title(self) -> str:
        """The title of the chart."""
        unit = f" ({self.unit})" if self.unit else ""
        return f"{self.name}{unit}{f', of {self.window} records' if self.window > 1 else ''}"

    @property
    def label(self) -> str:
        """The name as a part of a sentence."""
        return f"{self.name[0].lower()}{self.name[1:]}"

    def points(self, records: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
        """Return (step, value); of a quotient only where the sum of its divisors is above 0."""
        values = read_points(records, "step", *self.keys)
        if not self.per:
            return [
                (step, value if self.factor == 1.0 else value * self.factor)
                for step, value in values
            ]
        divisors = [divisor for _, divisor in read_points(records, "step", *self.per)]
        found = []
        for end in range(self.window, len(values) + 1):
            divisor = sum(divisors[end - self.window : end])
            if divisor > 0:
                found.append(
                    (
                        values[end - 1][0],
                        sum(value for _, value in values[end - self.window : end]) / divisor,
                    )
                )
        return found


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
