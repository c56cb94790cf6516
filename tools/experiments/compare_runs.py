"""Compare runs of the trainer: `clozeline compare-runs RUN [RUN ...] [--html FILE] [--json]`.

Prints the last and the best figures of each run and the keys in which their configurations differ. The page has the
curves over steps, tokens, seconds and operations. Runs may still be training: what they have written so far is shown.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from clozeline.report.charts import SHADES
from clozeline.configuration.redaction import redact
from clozeline.configuration.strict_yaml import parse_yaml
from clozeline.errors import ConfigurationError
from clozeline.report.html_page import grid, page, section, table, write_page
from clozeline.pipeline.corrupt.preview.view import Sheet, View
from clozeline.tools.command import Arguments, counted, run_tool, some_path
from clozeline.command import Terminal
from clozeline.tools.shards.viewer.rendering import print_view
from clozeline.train.configuration.config import flatten
from clozeline.errors import reading_run
from clozeline.train.logs.curves import RecordedRun, curves, last_heldout, read_run, results
from clozeline.train.logs.display import heldout_title
from clozeline.train.logs.json_lines import unreadable_lines
from clozeline.train.logs.status import read_status

_PLACES: Final = ("output", "resume")
"""Keys that say nothing about what is trained."""
_ABSENT: Final = "absent"


def figures_of(run: RecordedRun) -> dict[str, float]:
    """Return the last and the best figures of a run by title; those that it has not recorded are left out."""
    trained = [record for record in run.records if "loss" in record]
    last: Mapping[str, Any] = trained[-1] if trained else {}
    found = {key: last[key] for key in ("step", "samples", "tokens", "seconds", "flops") if key in last}
    if isinstance(last.get("loss"), float):
        found["training loss"] = last["loss"]
    found |= _heldout_figures(run)
    for title, keys in (
        ("tokens/s, median", ("tokens_per_s",)),
        ("padded tokens/s, median", ("padded_tokens_per_s",)),
        ("MFU, median", ("mfu",)),
        ("share of time waiting for data, median", ("stream", "waited_share")),
    ):
        if values := list(_values(trained, keys)):
            found[title] = statistics.median(values)
    for key, title in (("memory_bytes", "resident bytes"), ("device_bytes", "accelerator bytes")):
        if values := list(_values(trained, (key,))):
            found[f"{title} of rank 0, most"] = max(values)
    return found


def _heldout_figures(run: RecordedRun) -> dict[str, float]:
    """Return the last and the best loss on each held-out set, with the step of the best, and the entropy there."""
    found: dict[str, float] = {}
    for name, result in last_heldout(run.records).items():
        losses = {
            record["step"]: loss
            for record in run.records
            if isinstance(loss := results(record).get(name, {}).get("loss"), float) and math.isfinite(loss)
        }
        title = heldout_title(name)
        if losses:
            best = min(losses, key=lambda step: (losses[step], step))
            found |= {f"{title} loss, last": losses[max(losses)], f"{title} loss, best": losses[best]}
            found[f"{title} loss, step of the best"] = best
        if result["unigram_entropy"]:
            found[f"{title} unigram entropy"] = result["unigram_entropy"]
    return found


def _values(records: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> Iterator[float]:
    for record in records:
        value: Any = record
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, int | float):
            yield value


def config_differences(configs: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the dotted keys whose values differ, each with its value in every configuration."""
    flat = [flatten(dict(config)) for config in configs]
    keys = [key for key in dict.fromkeys(key for one in flat for key in one) if key.split(".")[0] not in _PLACES]
    found = {key: [str(one.get(key, _ABSENT)) for one in flat] for key in keys}
    return {key: values for key, values in found.items() if len(set(values)) > 1}


def _config_of(run: Path) -> dict[str, Any]:
    """Return the configuration of a run as it was written, without secrets."""
    path = run / "config.yaml"
    with reading_run(path):
        try:
            plain = parse_yaml(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise ConfigurationError(f"{path}: no such file: expected a run directory of train/main.py") from error
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ConfigurationError(f"{path}: cannot be read as YAML") from error
        if not isinstance(plain, dict):
            raise ConfigurationError(f"{path}: expected keys and values, got {type(plain).__name__}")
    return dict(redact(plain))


def _warn(run: Path) -> None:
    """Say on stderr which records of a run are not shown."""
    if not (run / "status.json").is_file():
        sys.stderr.write(f"note: {run / 'status.json'} is missing: whether the run has ended is not known\n")
    for name, what in (("metrics.jsonl", "steps"), ("events.jsonl", "starts, from which seconds are counted")):
        path = run / name
        if not path.is_file() or not path.stat().st_size:
            sys.stderr.write(f"note: {path} is missing or empty: no {what}\n")
        elif lost := unreadable_lines(path):
            sys.stderr.write(f"note: {path}: {counted(lost, 'line')} cannot be read, torn or damaged, and left out\n")


def _names(paths: Sequence[Path]) -> list[str]:
    """Return a short name for each run: its folder's, with as many folders above as tell them apart."""
    parts = [path.absolute().parts for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(one[-depth:]) for one in parts]
        if len(set(names)) == len(names):
            return names
    raise ConfigurationError(f"{paths[0]}: a run is given twice")


def _sheets(
    names: Sequence[str], figures: Sequence[Mapping[str, float]], states: Sequence[str], keys: Mapping[str, list[str]]
) -> Iterator[tuple[str, list[list[str]]]]:
    titles = list(dict.fromkeys(title for one in figures for title in one))
    rows = [[title, *(_shown(one.get(title)) for one in figures)] for title in titles]
    yield "figures", [["state", *states], *rows]
    if len(names) > 1:
        yield "configuration: keys that differ", [[key, *values] for key, values in keys.items()]


def _shown(value: float | None) -> str:
    """Return a figure as people read it."""
    if value is None:
        return ""
    if isinstance(value, int) or (abs(value) >= 1e3 and abs(value) < 1e12):
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 1e12 or abs(value) < 1e-3 else f"{value:.4f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = Arguments(__doc__)
    parser.add_argument("runs", type=some_path, nargs="+", metavar="RUN", help="a run directory of train/main.py")
    parser.add_argument("--html", type=some_path, metavar="FILE", help="write a page with the curves, too")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON alone")

    def action(options: argparse.Namespace) -> int:
        if len(options.runs) > SHADES:
            raise ConfigurationError(f"RUN: expected at most {SHADES} runs, which a picture can tell apart, got more")
        names, configs = _names(options.runs), [_config_of(path) for path in options.runs]
        runs = [read_run(path, name) for path, name in zip(options.runs, names, strict=True)]
        for path in options.runs:
            _warn(path)
        figures = [figures_of(run) for run in runs]
        states = ["not known" if (status := read_status(path)) is None else status.text for path in options.runs]
        keys = config_differences(configs)
        sheets = list(_sheets(names, figures, states, keys))
        if options.html is not None:
            parts = [section(title, table(["", *names], rows)) for title, rows in sheets if rows]
            title = f"Runs {', '.join(names)}" if len(names) > 1 else f"Run {names[0]}"
            write_page(options.html, page(title, [parts[0], grid(*curves(runs)), *parts[1:]]))
        if options.json:
            found = [{"name": name, "figures": one} for name, one in zip(names, figures, strict=True)]
            print(json.dumps({"runs": found, "differences": keys}, indent=1))
            return 0
        shown = (Sheet(title, ("", *names), tuple(tuple(row) for row in rows)) for title, rows in sheets)
        print_view(View(f"{counted(len(names), 'run')}: {', '.join(names)}", tuple(shown)), Terminal())
        if options.html is not None:
            print(f"page: {options.html}")
        return 0

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
