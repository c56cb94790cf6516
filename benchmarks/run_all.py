"""Every benchmark that needs no files, run or GPU, one after another, and one table of all their rows.

    python -m benchmarks.run_all [--only NAME ...] [--peers PYTHON] [--json FILE]

PYTHON is the interpreter of an environment with benchmarks/peers/requirements.txt, which `make bench` makes.
A row is judged only if the load stayed at most 2 (two cores) while its benchmark ran; otherwise it is `busy`. Ratios
and limits are judged; speeds without a peer are for information. The exit code is 1 if a judged row misses its target
or a benchmark failed.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import ROOT, parser, print_table, verdict, write_json

_NEED_MORE: Final = frozenset({"compression", "gpu"})
"""Benchmarks of files, a run or a GPU that the user has; the pages with their figures have the commands."""
_START: Final = 'if __name__ == "__main__":'
"""A module of `benchmarks/` without this line is a part of others."""
_PEER_OPTIONS: Final = ("--peer", "--peers-python")
"""Options of benchmarks for the interpreter of their peers."""
MAX_LOAD: Final = 2.0
_LOAD_EVERY_S: Final = 5.0


def benchmark_names() -> list[str]:
    """Return the benchmarks that need nothing, sorted."""
    scripts = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if _START in path.read_text(encoding="utf-8")}
    return sorted(scripts - _NEED_MORE - {"run_all"})


def find_rows(content: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows with a verdict in the JSON of a benchmark, at any depth."""
    if isinstance(content, dict) and "holds" in content and "case" in content:
        yield content
    elif isinstance(content, (dict, list)):
        for value in content.values() if isinstance(content, dict) else content:
            yield from find_rows(value)


def run(name: str, options: list[str]) -> tuple[int, list[dict[str, Any]]]:
    """Run one benchmark; return its exit code and its rows, each with the largest load while it ran."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        command = [sys.executable, "-m", f"benchmarks.{name}", *options, "--json", str(path)]
        with subprocess.Popen(command, cwd=ROOT) as process:
            load = os.getloadavg()[0]
            while process.poll() is None:
                load = max(load, os.getloadavg()[0])
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOAD_EVERY_S)
        rows = list(find_rows(json.loads(path.read_text(encoding="utf-8")))) if path.exists() else []
    for row in rows:
        row.update(benchmark=name, load=round(load, 1), judged=has_target(row) and load <= MAX_LOAD)
    return process.returncode, rows


def has_target(row: dict[str, Any]) -> bool:
    """Return True for a ratio or a limit; a speed without a peer depends on the machine and is for information."""
    return row["target"] is not None and not (row["peer"] is None and "/s" in row["unit"])


def judge(row: dict[str, Any]) -> str:
    """Return what the table says of a row: yes, NO, busy, or nothing where there is no target."""
    if not has_target(row):
        return ""
    return verdict(row["holds"]) if row["judged"] else "busy"


def shorten(value: float | str | None) -> str:
    """Return a number with three digits, `–` for none; a target may be words, such as a formula."""
    if not isinstance(value, (int, float)):
        return "–" if value is None else value
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def main() -> int:
    """Run the benchmarks, print one table, and return the exit code."""
    names = benchmark_names()
    made = parser(__doc__, peers=(str, "interpreter with the peers"))
    made.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    options = made.parse_args()
    table, failed, missed = [], [], False
    for name in options.only:
        print(f"\n== {name} ==", flush=True)
        text = (ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
        taken = [flag for flag in _PEER_OPTIONS if options.peers and _takes(text, flag)]
        code, rows = run(name, [word for flag in taken for word in (flag, options.peers)])
        table += rows
        missed |= any(judge(row) == "NO" for row in rows)
        if code and not rows:
            failed.append(name)
        write_json(options.json, table)  # after each of them: all of them take an hour
    cells = [
        (row["benchmark"], row["case"], row["unit"], *(shorten(row[key]) for key in ("ours", "peer", "ratio")),
         row["peer_name"] or "", shorten(row["target"]), row["load"], judge(row))
        for row in table
    ]  # fmt: skip
    print_table(("benchmark", "case", "unit", "ours", "peer", "ratio", "of", "target", "load", "holds"), cells)
    if failed:
        print(f"\nfailed without a row: {', '.join(failed)}")
    return int(bool(failed) or missed)


def _takes(source: str, flag: str) -> bool:
    """Return True if a benchmark has this option, by its source."""
    return re.search(rf"\b{flag.strip('-').replace('-', '_')}=", source) is not None


if __name__ == "__main__":
    raise SystemExit(main())
