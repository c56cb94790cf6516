"""A finding about this machine."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """One property of the machine, and what follows from it.

    Args:
        name: short name of what was looked at.
        status: `ok`; `slow` or `note`: it works, but the advice is worth reading; `missing`: needed and not there.
        found: the value.
        advice: reason and remedy, "" if all is well.
    """

    name: str
    status: Literal["ok", "note", "slow", "missing"]
    found: str
    advice: str = ""
