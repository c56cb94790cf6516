"""Read dates as files have them."""

import math
from datetime import UTC, datetime
from typing import Final

_MILLISECONDS: Final = 10**11
"""Number from which on a time is in milliseconds, the year 5138 in seconds."""


def parse_date(value: object) -> int | None:
    """Return the seconds since 1970 of an ISO date, which may lack the time, or of a number; None for anything else.

    A date without a zone is in UTC; a number may be in milliseconds.
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
