"""The report of a run: report.html and closing lines for the terminal, both made from the run's own files."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pipeline.config import to_plain
from pipeline.html_page import page, table
from train.checkpoint.state import TrainState
from train.config import TrainConfig, flatten
from train.logs.display import heldout_title
from train.logs.journal import read_lines

__all__ = ["closing_lines", "curve", "write_report"]

_WIDTH: Final = 860
_HEIGHT: Final = 260
_POINTS: Final = 600


def write_report(config: TrainConfig, memory: Sequence[Mapping[str, int]]) -> Path:
    """Write report.html into the run directory and return its path."""
    output = config.output
    records = read_lines(output / "metrics.jsonl")
    events = read_lines(output / "events.jsonl")
    parts = [_losses(records), _heldout(records), _memory(memory), _events(events), _configuration(config)]
    path = output / "report.html"
    part = path.with_suffix(".tmp")
    part.write_text(page(f"Training run {output.name}", parts), encoding="utf-8")
    part.replace(path)
    return path


def closing_lines(output: Path, state: TrainState, steps: int, reason: str | None) -> list[str]:
    """What a person wants to read at the end; `reason` of a stop, None where all is done."""
    everything = read_lines(output / "metrics.jsonl")
    records = [record for record in everything if record.get("loss") is not None]
    ending = "done" if reason is None else f"stopped ({reason})"
    lines = [f"{ending}: step {state.step} of {steps}, {state.samples:,} rows, {state.tokens:,} tokens"]
    if records:
        first, final = records[0], records[-1]
        lines.append(f"loss {first['loss']:.4f} at step {first['step']}, {final['loss']:.4f} at step {final['step']}")
    if state.skipped:
        lines.append(f"{state.skipped} steps were skipped, their gradient was not finite: see events.jsonl")
    for name, found in _last_heldout(everything).items():
        below = found["loss"] is not None and found["loss"] < found["unigram_entropy"]
        lines.append(
            f"{heldout_title(name)}: loss {_figure(found['loss'])}, {'below' if below else 'not below'} the unigram "
            f"entropy {found['unigram_entropy']:.4f} of the same labels"
        )
    if reason is not None:
        lines.append("the state is saved: start the same command again to go on")
    return lines


def curve(series: Mapping[str, Sequence[tuple[float, float]]], label: str) -> str:
    """Lines of (x, y) points as inline SVG; series share both axes. A long series is thinned by averaging."""
    shown = {name: _thin([point for point in points if math.isfinite(point[1])]) for name, points in series.items()}
    shown = {name: points for name, points in shown.items() if points}
    if not shown:
        return ""
    xs = [x for points in shown.values() for x, _ in points]
    ys = [y for points in shown.values() for _, y in points]
    left, right, low, high = min(xs), max(xs), min(ys), max(ys)

    def place(x: float, y: float) -> str:
        across = 60 + (_WIDTH - 80) * ((x - left) / (right - left) if right > left else 0.5)
        down = 20 + (_HEIGHT - 60) * ((high - y) / (high - low) if high > low else 0.5)
        return f"{across:.1f},{down:.1f}"

    colours = ("#4a7bd0", "#c8553d", "#3d8b5f", "#8a5fb0")
    drawn = []
    for number, (name, points) in enumerate(shown.items()):
        colour = colours[number % len(colours)]
        path = " ".join(place(x, y) for x, y in points)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        drawn += [f'<circle cx="{c.split(",")[0]}" cy="{c.split(",")[1]}" r="2.4" fill="{colour}"/>'
                  for c in path.split() if len(points) < 40]  # fmt: skip
        drawn.append(f'<text x="{70 + 200 * number}" y="12" fill="{colour}">{html.escape(name)}</text>')
    axes = (
        f'<text x="4" y="26">{high:.3f}</text><text x="4" y="{_HEIGHT - 36}">{low:.3f}</text>'
        f'<text x="60" y="{_HEIGHT - 16}">{left:g}</text>'
        f'<text x="{_WIDTH - 20}" y="{_HEIGHT - 16}" text-anchor="end">{right:g}</text>'
        f'<text x="{_WIDTH // 2}" y="{_HEIGHT - 2}" text-anchor="middle">{html.escape(label)}</text>'
        f'<path d="M56 16V{_HEIGHT - 36}H{_WIDTH - 16}" fill="none" stroke="#9aa5b5"/>'
    )
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" font-size="12"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{axes}{"".join(drawn)}</svg>'


def _thin(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    size = math.ceil(len(points) / _POINTS) if points else 1
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [(group[-1][0], sum(y for _, y in group) / len(group)) for group in groups]


def _losses(records: Sequence[Mapping[str, Any]]) -> str:
    trained = [(record["step"], record["loss"]) for record in records if record.get("loss") is not None]
    series = {"training": trained}
    for record in records:
        for name, found in record.get("heldout", {}).items():
            if found["loss"] is not None:
                series.setdefault(heldout_title(name), []).append((record["step"], found["loss"]))
    rates = [(r["step"], r["learning_rate"]) for r in records if "learning_rate" in r]
    return f"<h2>Loss</h2>{curve(series, 'step')}<h2>Learning rate</h2>{curve({'rate': rates}, 'step')}"


def _last_heldout(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return next((dict(record["heldout"]) for record in reversed(records) if "heldout" in record), {})


def _figure(loss: float | None) -> str:
    """A loss as metrics.jsonl has it: null where it was not finite."""
    return "not finite" if loss is None else f"{loss:.4f}"


def _heldout(records: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (name, record["step"], _figure(found["loss"]), f"{found['unigram_entropy']:.4f}", found["labels"])
        for record in records
        for name, found in record.get("heldout", {}).items()
    ]
    if not rows:
        return ""
    header = ["set", "step", "loss", "unigram entropy of its labels", "labels"]
    return f"<h2>Held-out sets (nats)</h2>{table(header, rows)}"


def _memory(memory: Sequence[Mapping[str, int]]) -> str:
    names = ("weights", "gradients", "optimizer", "resident")
    rows = [(rank, *(f"{held[name] / 2**20:.1f}" for name in names)) for rank, held in enumerate(memory)]
    return f"<h2>Memory per rank (MiB)</h2>{table(['rank', *names], rows)}"


def _events(events: Sequence[Mapping[str, Any]]) -> str:
    shown = [event for event in events if event["event"] != "memory"][-200:]
    rows = [
        (event["event"], event.get("step", ""), ", ".join(f"{k} {v}" for k, v in event.items() if k not in _KNOWN))
        for event in shown
    ]
    return f"<h2>Events</h2>{table(['event', 'step', 'what'], rows)}"


_KNOWN: Final = ("event", "step", "time", "versions", "rows_source_block_row")


def _configuration(config: TrainConfig) -> str:
    rows = [(key, "" if value is None else str(value)) for key, value in flatten(to_plain(config)).items()]
    return f"<h2>Configuration</h2>{table(['key', 'value'], rows)}"
