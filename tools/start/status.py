"""Show where a pipeline or a training is: `clozeline status OUT`, or with `json=true`.

Reads status.json in the output folder. The exit code is 0, or 1 if the run failed, or ended without
saying so.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Final

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.run_status import read_status
from clozeline.terminal import Terminal, size_text
from clozeline.tools.command import UserPath, run_as_script, run_tool

_TIMES: Final = ("started", "heartbeat", "estimated_end")
_SHOWN_OTHERWISE: Final = ("state", "start", "pid", "host")


@config_class
class StatusOptions:
    """The folder of a run."""

    run: Annotated[UserPath, Positional(0, "OUT")]
    """output folder of a pipeline or a training"""
    json: bool = False
    """print the fields of status.json, and `ended`: true if its process is gone"""


def _show_status(options: StatusOptions) -> int:
    """Print the status of a run, and return the exit code."""
    status = read_status(options.run)
    if status is None or not status.fields:
        problem = "no status.json" if status is None else "status.json is damaged"
        raise ConfigurationError(
            f"{options.run}: {problem}; expected the output folder of a pipeline or a training: "
            "start it again, which writes the file"
        )

    terminal = Terminal()
    if options.json:
        lines = [json.dumps({**status.fields, "ended": status.ended})]
    else:
        rows = [("state", status.state_text), ("process", status.process), *_rows(status.fields)]
        lines = [f"{name.replace('_', ' '):<26}{text}" for name, text in rows]
    for line in lines:
        terminal.print(line, highlight=False, markup=False, soft_wrap=True)
    return int(status.ended or status.state == "failed")


def _rows(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the names of the fields and their values as text; nested names have a slash."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _rows(value, f"{prefix}{name}/")
        elif prefix or (name not in _SHOWN_OTHERWISE and value is not None):
            yield f"{prefix}{name}", _format(name, prefix, value)


def _format(name: str, prefix: str, value: object) -> str:
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    if name in _TIMES:
        with suppress(ValueError, OverflowError):  # no date of a calendar
            return datetime.fromtimestamp(value).astimezone().isoformat(" ", "seconds")
    if "bytes" in name:
        return size_text(value)
    return f"{value:.1%}" if prefix.startswith("dropped") else f"{value:,.4g}"


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, StatusOptions, _show_status, prints=True)


if __name__ == "__main__":
    run_as_script(main)
