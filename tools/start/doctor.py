"""Examine this machine: `clozeline doctor [output=DIR] [--json]`.

Shows Python, torch, GPUs, NCCL, the compiler, cores, memory, free disk, the write speed of a folder, and the versions
of packages against the pins; it says what will be slow, and why. The exit code is 0, 64 if something needed is
missing, or 74 if the folder cannot be written.
"""

import argparse
import importlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rich import box
from rich.table import Table
from rich.text import Text

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, StorageError
from clozeline.terminal import Terminal
from clozeline.tools.command import Arguments, plural, run_tool
from clozeline.tools.settings import add_settings, settings_of
from clozeline.tools.start.examination.finding import Finding
from clozeline.tools.start.examination.hardware import WRITE_SPEED, examine_hardware
from clozeline.tools.start.examination.software import examine_software

_STYLES: Final = {"ok": "green", "note": "yellow", "slow": "yellow", "missing": "bold red"}


@config_class
class DoctorSettings:
    """Settings of `clozeline doctor`."""

    output: Path = Path()
    """Folder in which shards and runs will be written; its disk is measured with 64 MiB."""


def examine(output: Path) -> list[Finding]:
    """Return the findings about this machine."""
    torch: Any | None
    try:
        torch = importlib.import_module("torch")
    except (ImportError, OSError):  # a library of its build may be missing
        torch = None
    return [*examine_software(torch), *examine_hardware(output, torch)]


def _table(findings: Sequence[Finding]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "", "found"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        found = Text(finding.found)
        if finding.advice:
            found.append(f"\n→ {finding.advice}", "" if finding.status == "ok" else _STYLES[finding.status])
        table.add_row(Text(finding.name), Text(finding.status, _STYLES[finding.status]), found)
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Arguments(__doc__)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON alone")
    add_settings(parser, DoctorSettings)

    def action(options: argparse.Namespace) -> None:
        findings = examine(settings_of(DoctorSettings, options.overrides).output)
        if options.json:
            print(json.dumps([asdict(finding) for finding in findings], indent=1))
        else:
            Terminal().print(_table(findings))
        counts = Counter(finding.status for finding in findings)
        for finding in findings:
            if (finding.name, finding.status) == (WRITE_SPEED, "missing"):
                raise StorageError(f"{finding.found}; {finding.advice}")
        if counts["missing"]:
            names = ", ".join(finding.name for finding in findings if finding.status == "missing")
            raise ConfigurationError(f"missing: {names}; the lines above say what to do")
        if not options.json:
            notes = counts["slow"] + counts["note"]
            print("Nothing that is needed is missing.")
            if notes:
                print(f"See the advice on {plural(notes, 'line')} marked slow or note.")

    return run_tool(parser, arguments, action, prints=True)


if __name__ == "__main__":
    raise SystemExit(main())
