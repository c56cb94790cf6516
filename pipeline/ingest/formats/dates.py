"""Parse the dates that records state."""

import math
from datetime import UTC, datetime
from typing import Final

_MILLISECONDS: Final = 10**11
"""Larger numbers are milliseconds; as seconds they would be later than the year 5138."""


def parse_date(value: object) -> int | None:
    """Return the seconds since 1970 of an ISO date or a number, or None for anything else.

    A date may lack the time; without a zone it is in UTC. A number may be in milliseconds.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        seconds = value / 1000 if abs(value) >= _MILLISECONDS else value
        return int(seconds) if abs(seconds) < _MILLISECONDS else None
    if not isinstance(value, str):
        return None
    try:
        date = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    return int((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp())
