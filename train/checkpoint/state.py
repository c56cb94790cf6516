"""The state of a run as a checkpoint holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from train.checkpoint.format import Index
from train.errors import CheckpointError

__all__ = ["TrainState", "changed_keys", "read_state"]


@dataclass(frozen=True, kw_only=True)
class TrainState:
    """The position of a run and its description: all but parameters and optimizer states."""

    step: int
    """optimizer steps done, skipped ones included"""
    samples: int
    """rows consumed: the whole position of the stream"""
    tokens: int = 0
    """real tokens seen"""
    skipped: int = 0
    """steps whose gradient was not finite"""
    skipped_in_a_row: int = 0
    """of these, the last ones without a good step between"""
    heldout_loss: float | None = None
    """loss on the first held-out set at this step, where it was measured"""
    frozen: dict[str, Any] = field(default_factory=dict)
    """configuration keys that a continuation must share"""
    stream: dict[str, Any] = field(default_factory=dict)
    """what `Stream.state_dict` gave; empty in checkpoints of earlier versions"""
    dataset: str = ""
    """the training sets with their digests, shares and phases, as text"""
    shape: dict[str, Any] = field(default_factory=dict)
    """world size, ZeRO stage and the like: may change, with results equal up to rounding only"""
    versions: dict[str, str] = field(default_factory=dict)
    """versions of the libraries that computed it"""

    def advanced(self, *, rows: int, tokens: int, skipped: bool) -> TrainState:
        """Return the state after a step; a skipped one counts, and consumes its rows, like any other."""
        return replace(
            self,
            step=self.step + 1,
            samples=self.samples + rows,
            stream={**self.stream, "samples": self.samples + rows} if self.stream else {},
            tokens=self.tokens + tokens,
            skipped=self.skipped + skipped,
            skipped_in_a_row=self.skipped_in_a_row + 1 if skipped else 0,
            heldout_loss=None,
        )


def read_state(index: Index) -> TrainState:
    """Return the state in an index; unknown keys are an error.

    Raises:
        CheckpointError: a key is missing or unknown.
    """
    known = {item.name for item in fields(TrainState)}
    if unknown := set(index.state) - known:
        raise CheckpointError(f"checkpoint state: unknown keys {sorted(unknown)}; written by a newer version?")
    try:
        return TrainState(**index.state)
    except TypeError as error:
        raise CheckpointError(f"checkpoint state: {error}") from error


def changed_keys(saved: TrainState, now: TrainState, allowed: Sequence[str]) -> list[str]:
    """Return the frozen keys that differ between checkpoint and start, with both values; allowed keys are left out."""
    pairs = dict(saved.frozen), dict(now.frozen)
    if not saved.stream:  # an earlier version's, from which a stream cannot continue with other data
        pairs[0]["data (digest)"], pairs[1]["data (digest)"] = saved.dataset, now.dataset
    keys = [key for key in sorted({*pairs[0], *pairs[1]}) if pairs[0].get(key) != pairs[1].get(key)]
    free = [f"{key}." for key in allowed]
    return [
        f"{key}: {pairs[0].get(key)!r} in the checkpoint, {pairs[1].get(key)!r} now"
        for key in keys
        if not any(f"{key.removesuffix(' (digest)')}.".startswith(prefix) for prefix in free)
    ]
