"""Tell the events of a run as sentences: some are printed while it trains, and its page lists them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from clozeline.train.distributed.reporting import Reporting
from clozeline.train.logs.display import Display
from clozeline.train.logs.journal import Journal
from clozeline.train.logs.spikes import WATCHED

_SENTENCES: Final = {
    "start": "{steps:,} steps on {shape[world_size]} × {shape[device]}, ZeRO stage {shape[zero_stage]}",
    "resume": "from {checkpoint}",
    "save": "{checkpoint}",
    "save_waited": "waited {seconds:.1f} s for the previous save",
    "stop": "{reason}; the same command continues",
    "failed": "exit code {exit_code}: {error}",
}
"""Events that are not printed, or that the caller prints."""
_PRINTED: Final = {
    "lost": "the previous start was killed, or ended by the watchdog ({process}, {steps} steps done)",
    "latest_ignored": "checkpoints/latest does not say what to resume from: {reason}; the newest valid one is used",
    "metrics_dropped": "metrics.jsonl: {lines} unreadable lines at its end are cut off",
    "records_lost": "{file} is missing or empty: its records of the {steps} steps before are lost",
    "tokenizer_refused": "the run has no copy of its tokenizer: {reason}; then start the run again",
    "heldout_gone": "held-out set {name} was evaluated before and is not now: it has no manifest.json",
    "not_compiled": "torch.compile failed, training continues uncompiled; compile=true shows the error: {reason}",
    "new_phase": "the data changed since the checkpoint: from {samples:,} samples on the run reads {data}",
    "phase": "phase {phase} of the data begins: {shares}, {global_batch:,} rows a step",
    "quarantine": "{shards}: {blocks} blocks in quarantine come as filler rows",
    "skipped_block": "{shards}: {shard}, block {block} cannot be read, its rows come as filler rows",
    "data_starved": "{waited_share:.0%} of the last {steps} steps went into waiting for data: raise data.io_threads or "
    "data.prefetch_blocks, or move the shards to faster storage",
    "averaging": "the held-out loss no longer falls: from here on the mean of the weights is evaluated",
    "save_failed": "no checkpoint was saved: {error}; training continues",
    "score_failed": "the checkpoint does not hold its held-out loss: {error}; training continues",
    "checkpoint_refused": "checkpoint {checkpoint} is passed over: {reason}",
    "skip": "the gradient is not finite, nothing was updated",
    "rollback": "{reason}: rollback {number} to {checkpoint}; the {rows:,} rows since then {then}",
    "profile": "profile of {steps} steps: {trace} opens in Perfetto or chrome://tracing",
    "profile_failed": "no trace of the profile: {error}; training continues",
}
_HIDDEN: Final = ("event", "step", "time", "versions", "rows_source_block_row", "checksum")


def announcer(journal: Journal, display: Display) -> Callable[..., None]:
    """Return a function that writes an event, and prints the important ones."""
    reports = Reporting()

    def announce(event: str, **fields: Any) -> None:
        with reports("events"):
            journal.event(event, **fields)
            if event == "save":
                journal.status("running", checkpoint=fields["checkpoint"])
            elif event in _PRINTED or event == "spike":
                when = f"step {fields['step']}: " if fields.get("step") else ""
                display.say(f"{when}{describe_event({'event': event, **fields})}")

    return announce


def describe_event(event: Mapping[str, Any]) -> str:
    """Return what happened as a sentence; an event without one, or without its fields, as its fields."""
    try:
        name = event["event"]
        if name == "data":
            return "; ".join(
                f"phase {phase['phase']} reads {_shares(phase)}, {phase['global_batch']:,} rows a step"
                for phase in event["phases"]
            )
        if name == "spike":
            figures = ", ".join(
                f"{key} {event[key]['value']:.4g} is {event[key]['deviations']:.1f} deviations above the median "
                f"{event[key]['median']:.4g}"
                for key in WATCHED
                if key in event
            )
            return f"{figures}; its rows and documents:\n  {event['command']}"
        shares = {"shares": _shares(event)} if "shares" in event else {}
        return (_PRINTED.get(name) or _SENTENCES[name]).format_map({**event, **shares})
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):  # a damaged event may have any content
        return ", ".join(f"{key} {value}" for key, value in event.items() if key not in _HIDDEN)


def _shares(phase: Mapping[str, Any]) -> str:
    return ", ".join(f"{share:.1%} {name}" for name, share in phase["shares"].items())
