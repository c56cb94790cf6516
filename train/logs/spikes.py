"""Steps whose loss or gradient norm is far above those of the steps before."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any, Final

_WINDOW: Final = 200
"""Records that a step is compared with, the last ones before it."""
_LEAST: Final = 30
"""Records that must be there before a step is judged."""
_JUDGED: Final = ("loss", "gradient_norm")
_SIGMA: Final = 1.4826
"""Standard deviation of a normal law by its median absolute deviation."""


class Spikes:
    """The last values of what is judged; a resumed run takes them from its records, so that it judges alike.

    Args:
        bar: deviations above which a value is a spike.
        latest_first: the records so far, from the last one back; no more of them are taken than are compared with.
    """

    def __init__(self, bar: float, latest_first: Iterable[Mapping[str, Any]]) -> None:
        self.bar = bar
        self._values: dict[str, deque[float]] = {key: deque(maxlen=_WINDOW) for key in _JUDGED}
        for record in latest_first:
            for key, values in self._values.items():
                if (value := _value(record, key)) is not None and len(values) < _WINDOW:
                    values.appendleft(value)
            if all(len(values) == _WINDOW for values in self._values.values()):
                break

    def judge(self, record: Mapping[str, Any]) -> dict[str, dict[str, float]]:
        """Add the record of a step; return what is too high there: value, median and deviations above it.

        A value that is not finite is left out: such a step is skipped, and said elsewhere.
        """
        spikes = {}
        for key, values in self._values.items():
            if (value := _value(record, key)) is None:
                continue
            if len(values) >= _LEAST and (above := deviations(value, values)) > self.bar:
                spikes[key] = {"value": value, "median": median(values), "deviations": above}
            values.append(value)
        return spikes


def _value(record: Mapping[str, Any], key: str) -> float | None:
    value = record.get(key)
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def deviations(value: float, values: Iterable[float]) -> float:
    """Return by how many robust standard deviations a value is above the median of others; 0 where they are all alike.

    Example: 9 is 4.05 deviations above 1, 2, 3, 4, 5, whose median is 3 and whose median absolute deviation is 1.
    """
    listed = list(values)
    middle = median(listed)
    spread = _SIGMA * median(abs(other - middle) for other in listed)
    return (value - middle) / spread if spread else 0.0
