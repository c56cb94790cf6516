"""The claim of a benchmark: a figure of ours beside a peer's or a limit, and whether it is as good as it must be."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Claim:
    """One figure and what it is held against.

    Args:
        case: whose figure.
        unit: of both figures.
        ours: the figure.
        peer: what it is compared with.
        peer_name: whose figure that is.
        target: how many times better than `peer` ours must be.
        more: whether larger is better.
    """

    case: str
    unit: str
    ours: float
    peer: float
    peer_name: str = "limit"
    target: float = 1.0
    more: bool = False

    @property
    def ratio(self) -> float:
        """Return the factor by which ours is better."""
        better, worse = (self.ours, self.peer) if self.more else (self.peer, self.ours)
        return better / worse if worse else 1.0 if not better else math.inf

    @property
    def holds(self) -> bool:
        """Return whether the target is met."""
        return self.ratio >= self.target

    def row(self) -> dict[str, Any]:
        """Return the row that `--json` writes."""
        names = ("case", "ours", "peer", "peer_name", "ratio", "unit", "target", "holds")
        row = {name: getattr(self, name) for name in names}
        return {**row, "ratio": self.ratio if math.isfinite(self.ratio) else None}


def show_limits(claims: Sequence[Claim]) -> None:
    """Return claims as a Markdown table; limits are multiplied by their targets."""
    print("\n| case | figure | ours | must be | of | holds |\n|---|---|---|---|---|---|")
    for claim in claims:
        bound = claim.peer * claim.target if claim.more else claim.peer / claim.target
        side = "at least" if claim.more else "at most"
        print(f"| {claim.case} | {claim.unit} | {claim.ours:,.3g} | {side} {bound:,.3g} | {claim.peer_name} | "
              f"{'yes' if claim.holds else 'NO'} |")  # fmt: skip


def write_json(path: Path | None, claims: Sequence[Claim]) -> None:
    """Write the rows if a path is given."""
    if path is not None:
        path.write_text(json.dumps([claim.row() for claim in claims], indent=1) + "\n", encoding="utf-8")


def finish(claims: Sequence[Claim], path: Path | None) -> int:
    """Show and write claims that are guards of ours alone; the exit code is 1 if one does not hold."""
    show_limits(claims)
    write_json(path, claims)
    return int(not all(claim.holds for claim in claims))
