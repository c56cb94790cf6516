"""Run every benchmark that needs no files, run or GPU, and print one table of all rows.

    python -m benchmarks.run_all [--only NAME ...] [--peers PYTHON] [--json FILE]

PYTHON is the interpreter of an environment with benchmarks/peers/requirements.txt, which `make
bench` makes. Each row has the largest load while its benchmark ran: above the number of cores,
speeds say little. The exit code is 1 if a row misses its target or a benchmark failed.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from benchmarks.harness import ROOT, parser, print_figures, temporary_folder, write_json

SMALLEST = None
"""Each benchmark declares the options of its smallest run; None: it needs files, a run or a GPU,
and the page with its figures has the command."""
_START: Final = 'if __name__ == "__main__":'
"""A module of `benchmarks/` without this line is a part of others."""
_LOAD_EVERY_S: Final = 5.0


def smallest_runs() -> dict[str, str | None]:
    """Return the options of the smallest run of each benchmark, sorted by name."""
    scripts = (
        path.stem
        for path in sorted((ROOT / "benchmarks").glob("*.py"))
        if _START in path.read_text(encoding="utf-8")
    )
    return {name: import_module(f"benchmarks.{name}").SMALLEST for name in scripts}


def find_rows(content: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows with a verdict in the JSON of a benchmark, at any depth."""
    if isinstance(content, dict) and "holds" in content and "case" in content:
        yield content
    elif isinstance(content, (dict, list)):
        for value in content.values() if isinstance(content, dict) else content:
            yield from find_rows(value)


def run(name: str, options: list[str]) -> tuple[int, list[dict[str, Any]]]:
    """Run one benchmark.

    Return its exit code and its rows, each with the largest load while it ran.
    """
    with temporary_folder() as folder:
        path = folder / "rows.json"
        command = [sys.executable, "-m", f"benchmarks.{name}", *options, "--json", str(path)]
        with subprocess.Popen(command, cwd=ROOT) as process:
            load = os.getloadavg()[0]
            while process.poll() is None:
                load = max(load, os.getloadavg()[0])
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOAD_EVERY_S)
        rows = (
            list(find_rows(json.loads(path.read_text(encoding="utf-8")))) if path.exists() else []
        )

    return process.returncode, [{**row, "benchmark": name, "load": round(load, 1)} for row in rows]


def main() -> int:
    """Run the benchmarks, print one table, and return the exit code."""
    names = [name for name, options in smallest_runs().items() if options is not None]
    made = parser(__doc__, peers=(str, "interpreter with the peers"))
    made.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names)
    )
    options = made.parse_args()
    table = []
    failed = []

    for name in options.only:
        print(f"\n== {name} ==", flush=True)
        text = (ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
        takes_peers = options.peers and re.search(r"\bpeers_python=", text)
        code, rows = run(name, ["--peers-python", options.peers] if takes_peers else [])
        table += rows
        failed += [name] if code else []
        write_json(options.json, table)  # after each of them: all of them take an hour

    print_figures(table, "", "benchmark", "load")
    if failed:
        print(f"\nfailed, or missed a target: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
