"""Compare runs of the trainer: `clozeline compare-runs mine/run other/run [html=FILE] [--json]`.

Prints the last and best figures of each run and the configuration keys in which they differ. The
page has curves over steps, tokens, seconds and FLOPs. Runs may still be training: whatever they
have written so far is shown.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class, flatten, read_mapping
from clozeline.configuration.redaction import redact
from clozeline.errors import ConfigurationError, plural, reading_run, write_note
from clozeline.files import publish_text
from clozeline.report.charts import SHADES
from clozeline.report.html_page import page
from clozeline.report.terminal_view import print_view
from clozeline.report.views import Section, Table
from clozeline.run_status import read_status
from clozeline.terminal import Terminal
from clozeline.tools.command import OutputPath, UserPath, run_as_script, run_tool
from clozeline.tools.options import JsonSwitch
from clozeline.train.logs.curves import curves, group_by_task, read_run
from clozeline.train.logs.figures import figures_of
from clozeline.train.logs.json_lines import records

_IGNORED_KEYS: Final = ("output", "resume")
"""Keys that do not affect the training."""
_ABSENT_KEY: Final = "absent"
"""Shown as the value of a key that a configuration does not have."""
_MOST_ROWS: Final = 20
"""Rows of a table on the terminal; a page and JSON have all."""


@config_class
class CompareRunsOptions(JsonSwitch):
    """Runs to compare."""

    runs: Annotated[list[UserPath], Field(min_length=1), Positional(0, "RUN")]
    """run directories of train/main.py"""
    html: OutputPath | None = None
    """also write a page with the curves"""


def config_differences(configs: Sequence[Mapping[str, object]]) -> dict[str, list[str]]:
    """Return the dotted keys whose values differ, each with its value in every configuration."""
    flat = [flatten(dict(config)) for config in configs]
    values_by_key = {
        key: [str(config.get(key, _ABSENT_KEY)) for config in flat]
        for config in flat
        for key in config
    }
    return {
        key: values
        for key, values in values_by_key.items()
        if len(set(values)) > 1 and key.split(".")[0] not in _IGNORED_KEYS
    }


def _notes(run: Path) -> Iterator[str]:
    """Yield a note for each file that a run lacks."""
    for name, key, what in (
        ("status.json", "", "whether the run has ended is not known"),
        ("metrics.jsonl", "step", "no steps"),
        ("events.jsonl", "event", "no starts, from which seconds are counted"),
    ):
        path = run / name
        if not path.is_file() or not path.stat().st_size:
            yield f"{path} is missing or empty: {what}"
        elif key and (lost := sum(record is None or key not in record for record in records(path))):
            yield (
                f"{path}: {plural(lost, 'line')} cannot be read, torn, damaged or of another file, "
                "and skipped"
            )


def _short_names(paths: Sequence[Path]) -> list[str]:
    """Return a short unique name per run: its folder, with parent folders as needed."""
    parts = [path.absolute().parts for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(path_parts[-depth:]) for path_parts in parts]
        if len(set(names)) == len(names):
            return names
    raise ConfigurationError(f"{paths[0]}: the same run is given twice")


def _compare(options: CompareRunsOptions) -> None:
    if len(options.runs) > SHADES:
        raise ConfigurationError(
            f"RUN: expected at most {SHADES} runs, which a chart can tell apart, got more"
        )

    names = _short_names(options.runs)
    configs = []

    for path in options.runs:
        with reading_run(path / "config.yaml"):
            configs.append(redact(read_mapping(path / "config.yaml")))
        for note in _notes(path):
            write_note(note)

    runs = [read_run(path, name) for path, name in zip(options.runs, names, strict=True)]
    tasks = group_by_task(runs)
    numbers = {task: f" ({number})" for number, task in enumerate(tasks, 1) if len(tasks) > 1}
    groups = [numbers.get(run.task, "") for run in runs]
    figures = [
        figures_of(run.records, run.charts, group) for run, group in zip(runs, groups, strict=True)
    ]
    states = [
        "not known" if (status := read_status(path)) is None else status.text
        for path in options.runs
    ]
    keys = config_differences(configs)
    titles = list(dict.fromkeys(title for of_run in figures for title in of_run))
    rows = [
        [title, *(of_run[title].text if title in of_run else "" for of_run in figures)]
        for title in titles
    ]
    tasks_of_runs = (f"{run.task}{group}" for run, group in zip(runs, groups, strict=True))
    heading = [["state", *states], ["losses of", *tasks_of_runs]]
    runs_head = ["", *names]
    title = f"{plural(len(names), 'run')}: {', '.join(names)}"
    tables = [Table("Figures", runs_head, [*heading, *rows])]

    if len(names) > 1:
        differing = [[key, *values] for key, values in keys.items()]
        tables.append(Table("Configuration: keys that differ", runs_head, differing))

    if numbers:
        write_note(
            "losses of different objectives, units or tokenizers cannot be compared: each "
            "has lines and charts of its own"
        )
    if options.html is not None:
        charts = Section("", [*curves(runs)], is_row=True)
        publish_text(options.html, page(Section(title, [tables[0], charts, *tables[1:]])))

    if options.json:
        run_list = [
            {"name": name, "figures": {title: figure.value for title, figure in of_run.items()}}
            for name, of_run in zip(names, figures, strict=True)
        ]
        print(json.dumps({"runs": run_list, "differences": keys}, indent=1))
        return

    shown = [table.shorten(_MOST_ROWS, ": html=FILE or --json") for table in tables]
    print_view(Section(title, shown), Terminal())
    if options.html is not None:
        print(f"page: {options.html}")


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, CompareRunsOptions, _compare, prints=True)


if __name__ == "__main__":
    run_as_script(main)
