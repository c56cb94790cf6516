"""Shared by every benchmark: options, timing, separate processes, tables, `--json` and targets.

Importing it limits numpy, torch and tokenizers to one thread, so import it before them.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
os.environ.update(OMP_NUM_THREADS="1", OMP_THREAD_LIMIT="1", TOKENIZERS_PARALLELISM="false")


def parser(description: str | None, **options: Any) -> argparse.ArgumentParser:
    """Return a parser with `--json FILE` and one option per keyword.

    The value of a keyword is the default, or a type where the default is None, or a pair of that
    and the help text.
    """
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )

    for name, value in options.items():
        default, text = value if isinstance(value, tuple) else (value, "")
        flag = f"--{name.replace('_', '-')}"
        text = text or "default: %(default)s"
        if isinstance(default, type):
            made.add_argument(flag, type=default, metavar=name.upper(), help=text)
        elif isinstance(default, bool):
            made.add_argument(flag, action="store_true", help=text)
        elif isinstance(default, list):
            made.add_argument(flag, type=type(default[0]), nargs="+", default=default, help=text)
        else:
            made.add_argument(flag, type=type(default), default=default, help=text)

    made.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the figures to this file"
    )
    return made


def seconds_of(work: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> float:
    """Return the seconds of one run."""
    start = clock()
    work()
    return clock() - start


def best_seconds(
    work: Callable[[], Any], runs: int, clock: Callable[[], float] = time.process_time
) -> float:
    """Return the seconds of the fastest of several runs, after one to warm up."""
    return min(take_turns({"": work}, runs, clock)[""])


def take_turns(
    works: Mapping[str, Callable[[], Any]],
    repeats: int,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, list[float]]:
    """Return the seconds of each repetition by name.

    The works take turns, and the first turn warms up.
    """
    turns = [
        {name: seconds_of(work, clock) for name, work in works.items()} for _ in range(repeats + 1)
    ]
    return {name: [turn[name] for turn in turns[1:]] for name in works}


@contextmanager
def temporary_folder(parent: str | None = None) -> Iterator[Path]:
    """Yield a new folder, which is removed at the end."""
    with tempfile.TemporaryDirectory(dir=parent) as name:
        yield Path(name)


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its children.

    Some of them still run: an extractor, a fork server.
    """
    import psutil  # peers in environments of their own do not have it

    living = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return sum(os.times()[:4]) + sum(times.user + times.system for times in living)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def system_load() -> str:
    return f"load {', '.join(f'{load:.1f}' for load in os.getloadavg())}"


def run_command(*command: object) -> str:
    """Return what a command prints; the last line of its errors is that of a RuntimeError."""
    # another interpreter may not have Clozeline installed
    result = subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    if result.returncode:
        raise RuntimeError((result.stderr.strip().splitlines() or ["no message"])[-1])
    return result.stdout


def run_script(script: str, *options: object, python: str = sys.executable) -> Any:
    """Return the JSON on the last line of a benchmark in a process of its own.

    Its error is a RuntimeError.
    """
    module = ".".join(Path(script).resolve().relative_to(ROOT).with_suffix("").parts)
    return json.loads(run_command(python, "-m", module, *options).splitlines()[-1])


def figure(
    case: str,
    unit: str,
    ours: float,
    peer: float | None = None,
    peer_name: str = "",
    target: Any = None,
    *,
    holds: bool | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return one row of `--json`; `ratio` is ours / peer, unless it is given.

    Without a target, `holds` is None.
    """
    return {
        "case": case,
        "ours": ours,
        "peer": peer,
        "peer_name": peer_name,
        "ratio": ours / peer if peer else None,
        "unit": unit,
        "target": target,
        "holds": holds,
        **more,
    }


@dataclass(frozen=True)
class Claim:
    """One figure and what it is compared with.

    Ours must be `target` times better than that of a peer, or meet a limit.
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
        """The factor by which ours is better."""
        better, worse = (self.ours, self.peer) if self.more else (self.peer, self.ours)
        return better / worse if worse else 1.0 if not better else math.inf

    @property
    def holds(self) -> bool:
        """Whether the target is met."""
        return self.ratio >= self.target

    def row(self) -> dict[str, Any]:
        """Return the row of `--json`; its ratio is the factor by which ours is better."""
        return figure(
            self.case,
            self.unit,
            self.ours,
            self.peer,
            self.peer_name,
            self.target,
            holds=self.holds,
            ratio=self.ratio if math.isfinite(self.ratio) else None,
        )


def verdict(holds: bool) -> str:
    return "yes" if holds else "NO"


def table_text(head: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table with aligned columns."""
    lines = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    text = ""
    for first, *rest in lines:
        cells = [
            first.ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)),
        ]
        text += f"| {' | '.join(cells)} |\n"
    return text


def print_table(head: Iterable[object], rows: Iterable[Iterable[object]], title: str = "") -> None:
    """Print a Markdown table with aligned columns."""
    print(f"\n{title}\n" if title else "")
    print(table_text(head, rows), end="")


def print_rows(
    rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str], title: str = ""
) -> None:
    """Print rows as a table; `columns` has the format of each, such as `{seconds:.1f} s`."""
    print_table(
        columns, [[each.format_map(row) for each in columns.values()] for row in rows], title
    )


def shorten(value: object) -> str:
    """Return a number with four digits, `–` for none; a verdict is a word."""
    if isinstance(value, bool):
        return verdict(value)
    if not isinstance(value, (int, float)):
        return "–" if value is None else str(value)
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def print_figures(rows: Iterable[Mapping[str, Any]], title: str = "", *more: str) -> None:
    """Print the rows of `--json` as a table, with the values of more of their keys."""
    keys = ("case", *more, "unit", "ours", "peer", "peer_name", "ratio", "target", "holds")
    print_table(keys, [[shorten(row[key]) for key in keys] for row in rows], title)


def write_json(path: Path | None, content: Any) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def finish(
    rows: Iterable[Claim | Mapping[str, Any]], path: Path | None, title: str = "", *more: str
) -> int:
    """Print and write claims or rows; return the exit code, 1 if one does not hold."""
    made = [row.row() if isinstance(row, Claim) else row for row in rows]
    print_figures(made, title, *more)
    write_json(path, made)
    return int(not all(row["holds"] is not False for row in made))
