"""Show where a pipeline or a training is: `clozeline status mine/run`, or with `json=true`.

Reads status.json in the output folder, or in the folders of OUT, such as those of the pipeline and
the training in a folder of `clozeline new`. The exit code is 0. It is 1 if a run failed, or ended
without saying so, and 2 if it is silent for a minute, or if its status.json is damaged.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, share_text
from clozeline.run_status import UNKNOWN, read_status
from clozeline.terminal import Terminal, size_text
from clozeline.tools.command import UserPath, run_as_script, run_tool
from clozeline.train.logs.display import heldout_title
from clozeline.train.logs.figures import losses_on
from clozeline.train.logs.json_lines import read_lines

_TIMES: Final = ("started", "heartbeat", "progress", "estimated_end")
_SHOWN_OTHERWISE: Final = ("state", "start", "pid", "host", "heldout", "totals")


@config_class
class StatusOptions:
    """The folder of a run."""

    run: Annotated[UserPath, Positional(0, "OUT")]
    """output folder of a pipeline or a training, or a folder with such folders"""
    json: bool = False
    """print the fields of status.json, `folder`, `ended`: true if its process is gone, and
    `silent`: true if its heartbeat is older than a minute; one line for each run"""


def _show_status(options: StatusOptions) -> int:
    """Print the status of a run, or of the runs in a folder, and return the exit code."""
    folder = options.run
    if not folder.is_dir():
        raise ConfigurationError(f"{folder}: no such folder; name the output of a run")
    places = (folder, *sorted(folder.glob("*/")))
    found = {place: status for place in places if (status := read_status(place)) is not None}
    if not found:
        recipe = folder / "pipeline.yaml"
        remedy = "name the `output` of a pipeline or a training"
        if recipe.is_file():
            remedy = f"first: clozeline pipeline --config {shlex.quote(str(recipe))}"
        raise ConfigurationError(f"{folder}: no run is in this folder or in those in it; {remedy}")

    terminal = Terminal()
    for place, status in found.items():
        known = {"folder": str(place), "ended": status.ended, "silent": status.is_silent}
        lines = [json.dumps({**status.fields, **known})]
        if not options.json:
            rows = [("state", status.state_text), ("process", status.process)]
            rows += [*_rows(status.fields), *_heldout_rows(place, status.heldout)]
            width = max(len(name) for name, _ in rows)
            lines = [f"{place}:", *(f"  {name:<{width}}  {text}" for name, text in rows)]
        for line in lines:
            terminal.print(line, highlight=False, markup=False, soft_wrap=True)
    if any(status.ended or status.state == "failed" for status in found.values()):
        return 1
    return 2 * any(status.is_silent or status.state == UNKNOWN for status in found.values())


def _rows(fields: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the names of the fields, nested ones behind those above, and their values as text."""
    for name, value in fields.items():
        if name in _SHOWN_OTHERWISE or not value:
            continue
        shown = f"{above} {name.replace('_', ' ')}".strip()
        if isinstance(value, Mapping):
            yield from _rows(value, shown)
        else:
            yield shown, _format(name, shown, value)


def _heldout_rows(folder: Path, heldout: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the last and the best loss on each held-out set of a training."""
    records = read_lines(folder / "metrics.jsonl")
    for name in heldout:
        if losses := losses_on(name, records):
            best, step = min(losses)
            text = f"{losses[-1][0]:.4g} (best {best:.4g} at {step:,})"
            yield f"{heldout_title(name)} loss", text


def _format(name: str, shown: str, value: object) -> str:
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    if name in _TIMES:
        with suppress(ValueError, OverflowError):  # no date of a calendar
            return datetime.fromtimestamp(value).astimezone().isoformat(" ", "seconds")
    if shown.startswith("dropped"):
        return share_text(value)
    return size_text(value) if "bytes" in name else f"{value:,.4g}"


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, StatusOptions, _show_status, prints=True)


if __name__ == "__main__":
    run_as_script(main)
