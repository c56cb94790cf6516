"""Tell the events of a run as sentences, for its page."""

from collections.abc import Mapping
from typing import Any, Final

_NOT_TOLD: Final = ("event", "step", "time", "versions", "rows_source_block_row", "checksum")
_SENTENCES: Final = {
    "start": "Started {steps:,} steps on {shape[world_size]} × {shape[device]}, ZeRO stage {shape[zero_stage]}.",
    "resume": "Resumed from {checkpoint}.",
    "new_phase": "Reads other data from here on: {data}.",
    "not_compiled": "Runs uncompiled, since torch.compile failed: {reason}",
    "averaging": "Evaluations use the averaged weights from here on.",
    "save": "Saved {checkpoint}.",
    "save_waited": "Waited {seconds:.1f} s for the save before.",
    "save_failed": "Could not save: {error}",
    "copy": "Copied {checkpoint} to {place}.",
    "checkpoint_refused": "Refused {checkpoint}: {reason}",
    "heldout_gone": "The held-out set {name} is gone.",
    "skip": "The gradient was not finite: nothing was updated, {in_a_row} in a row.",
    "rollback": "Diverged: {reason}. Went back to {checkpoint}; the {rows:,} rows since then {then}.",
    "data_starved": "The slowest rank waited for data for {waited_share:.0%} of {steps} steps.",
    "profile": "Recorded {steps} steps in {trace}.",
    "profile_failed": "Recorded no profile: {error}",
    "stop": "Stopped: {reason}. The same command continues.",
    "done": "Completed.",
    "failed": "Failed with exit code {exit_code}: {error}",
}


def describe_event(event: Mapping[str, Any]) -> str:
    """Return what happened as a sentence; an event without one, or without its fields, as its fields."""
    name = event.get("event")
    try:
        if name == "data":
            return "; ".join(map(_describe_phase, event["phases"]))
        return _SENTENCES[name].format_map(event)  # type: ignore[index]  # a damaged event may have any name
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return ", ".join(f"{key} {value}" for key, value in event.items() if key not in _NOT_TOLD)


def _describe_phase(phase: Mapping[str, Any]) -> str:
    shares = ", ".join(f"{share:.1%} {name}" for name, share in phase["shares"].items())
    return f"Phase {phase['phase']} reads {shares}, {phase['global_batch']:,} rows a step."
