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
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
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


def best_seconds(
    work: Callable[[], Any], runs: int, clock: Callable[[], float] = time.process_time
) -> float:
    """Return the seconds of the fastest of several runs, after one to warm up."""
    work()
    best = math.inf
    for _ in range(runs):
        start = clock()
        work()
        best = min(best, clock() - start)
    return best


def take_turns(
    works: Mapping[str, Callable[[], Any]],
    repeats: int,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, list[float]]:
    """Return the seconds of each repetition by name.

    The works take turns, and the first turn warms up.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for repeat in range(repeats + 1):
        for name, work in works.items():
            start = clock()
            work()
            if repeat:
                seconds[name].append(clock() - start)
    return seconds


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


def run_script(script: str, *options: object, python: str = sys.executable) -> Any:
    """Return the JSON on the last line of a benchmark in a process of its own.

    Its error is a RuntimeError.
    """
    path = Path(script).resolve()
    own = path.is_relative_to(ROOT)
    start = ["-m", ".".join(path.relative_to(ROOT).with_suffix("").parts)] if own else [script]
    command = [python, *start, *map(str, options)]
    # another interpreter may not have Clozeline installed
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if result.returncode:
        raise RuntimeError((result.stderr.strip().splitlines() or ["no message"])[-1])
    return json.loads(result.stdout.splitlines()[-1])


def figure(
    case: str,
    unit: str,
    ours: float,
    peer: float | None,
    peer_name: str,
    target: Any,
    *,
    holds: bool,
    **more: Any,
) -> dict[str, Any]:
    """Return one row of `--json`; `ratio` is ours / peer."""
    ratio = ours / peer if peer else None
    row = {
        "case": case,
        "ours": ours,
        "peer": peer,
        "peer_name": peer_name,
        "ratio": ratio,
        "unit": unit,
    }
    return {**row, "target": target, "holds": holds, **more}


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
        """Return the row of `--json`."""
        row = figure(
            self.case,
            self.unit,
            self.ours,
            self.peer,
            self.peer_name,
            self.target,
            holds=self.holds,
        )
        return {**row, "ratio": self.ratio if math.isfinite(self.ratio) else None}


def verdict(holds: bool) -> str:
    return "yes" if holds else "NO"


def print_table(head: Iterable[object], rows: Iterable[Iterable[object]], title: str = "") -> None:
    """Print a Markdown table with aligned columns."""
    lines = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    print(f"\n{title}\n" if title else "")
    for first, *rest in lines:
        cells = [
            first.ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)),
        ]
        print(f"| {' | '.join(cells)} |")


def print_claims(claims: Sequence[Claim]) -> None:
    """Print claims as a table; limits are multiplied by their targets."""
    rows = []

    for claim in claims:
        bound = claim.peer * claim.target if claim.more else claim.peer / claim.target
        limit = f"{'at least' if claim.more else 'at most'} {bound:,.3g}"
        rows.append(
            (
                claim.case,
                claim.unit,
                f"{claim.ours:,.3g}",
                limit,
                claim.peer_name,
                verdict(claim.holds),
            )
        )

    print_table(("case", "figure", "ours", "must be", "of", "holds"), rows)


def write_json(path: Path | None, content: Any) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def finish(claims: Sequence[Claim], path: Path | None) -> int:
    """Print and write claims; return the exit code, 1 if one does not hold."""
    print_claims(claims)
    write_json(path, [claim.row() for claim in claims])
    return int(not all(claim.holds for claim in claims))
