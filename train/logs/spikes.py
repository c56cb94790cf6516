"""Detect spikes: steps whose loss or gradient norm is far above the recent ones."""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any, Final

_COMPARED_RECORDS: Final = 200
"""Preceding records that a step is compared with."""
_MIN_PRECEDING_RECORDS: Final = 30
"""With fewer preceding records, nothing is a spike."""
WATCHED: Final = ("loss", "gradient_norm")
_DEVIATION_RATIO: Final = 1.4826
"""Ratio of standard deviation and median absolute deviation of a normal distribution."""


class Spikes:
    """Finds values that are more than `bar` deviations above the recent ones.

    A resumed run continues from its records, latest first, read only as far as needed.
    """

    def __init__(self, bar: float, latest_first: Iterable[Mapping[str, Any]]) -> None:
        self.bar = bar
        self._values: dict[str, deque[float]] = {
            key: deque(maxlen=_COMPARED_RECORDS) for key in WATCHED
        }

        for record in latest_first:
            for key, values in self._values.items():
                value = _value(record, key)
                if value is not None and len(values) < _COMPARED_RECORDS:
                    values.appendleft(value)
            if all(len(values) == _COMPARED_RECORDS for values in self._values.values()):
                break

    def detect(self, record: Mapping[str, object]) -> dict[str, dict[str, float]]:
        """Add the record of a step, and return its spikes: value, median and deviations above it.

        Values that are not finite are ignored: those steps are skipped and reported elsewhere.
        """
        spikes = {}
        for key, values in self._values.items():
            if (value := _value(record, key)) is None:
                continue
            if (
                len(values) >= _MIN_PRECEDING_RECORDS
                and (above := deviations(value, values)) > self.bar
            ):
                spikes[key] = {"value": value, "median": median(values), "deviations": above}
            values.append(value)
        return spikes


def _value(record: Mapping[str, object], key: str) -> float | None:
    value = record.get(key)
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def deviations(value: float, values: Iterable[float]) -> float:
    """Return how many robust standard deviations a value is above the median of `values`.

    Return 0 if all values are equal.

    Example: 9 is 4.05 deviations above 1, 2, 3, 4, 5, whose median is 3 and whose median absolute
    deviation is 1.
    """
    listed = list(values)
    middle = median(listed)
    spread = _DEVIATION_RATIO * median(abs(other - middle) for other in listed)
    return (value - middle) / spread if spread else 0.0
