"""Run the cells of labs as Jupyter does, and check what they print.

python -m docs.generate.labs NAME [--folder DIR]
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from clozeline.tools.start.lab import Cell, Lab, all_labs, read_lab, write_lab

_COLORS: Final = re.compile(r"\x1b\[[\d;]*m")


class RanCell(NamedTuple):
    """A cell of a lab after it ran."""

    title: str
    """of its exercise"""
    cell: Cell
    printed: str
    seconds: float
    is_right: bool
    """whether it ran, and what it printed matches the pattern of the cell"""


def run_lab(lab: Lab, folder: Path, exercises: int | None = None) -> Iterator[RanCell]:
    """Write a lab, run its notebook, and yield each cell with code; an error ends the lab.

    `exercises`: how many of them to run; default: all.
    """
    write_lab(lab, folder)
    notebook = nbformat.read(folder / f"{lab.name}.ipynb", as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    client: Any = NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources)
    title = ""
    count = 0
    with client.setup_kernel():
        client.execute_cell(notebook.cells[0], 0)
        for index, cell in enumerate(lab.cells, 1):
            if cell.source.startswith("## "):
                title = cell.source.partition("\n")[0].removeprefix("## ")
                count += 1
                if exercises is not None and count > exercises:
                    return
            if cell.kind == "markdown":
                continue

            start = time.monotonic()
            ran = notebook.cells[index]
            try:
                client.execute_cell(ran, index)
                error = ""
            except CellExecutionError as failure:
                error = str(failure)
            printed = _COLORS.sub("", "".join(map(_text_of, ran.outputs))) or error
            is_right = not error and re.search(cell.shows, printed, re.MULTILINE) is not None
            yield RanCell(title, cell, printed, time.monotonic() - start, is_right)
            if error:
                return


def _text_of(output: Any) -> str:
    """Return the text of an output: printed, or the value of the last expression."""
    if output.output_type == "stream":
        return output.text
    return output.get("data", {}).get("text/plain", "")


def main() -> int:
    """Run one lab; return 1 if a cell failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=all_labs())
    parser.add_argument("--folder", type=Path, help="folder of the lab, kept")
    options = parser.parse_args()

    folder = options.folder or Path(tempfile.mkdtemp(prefix="lab-"))
    failed = 0
    for title, cell, printed, seconds, is_right in run_lab(read_lab(options.name), folder):
        failed += not is_right
        verdict = "ok" if is_right else f"FAILED; expected: {cell.shows}"
        sys.stdout.write(f"## {title}\n{cell.source}\n{printed}\n{seconds:.1f} s: {verdict}\n\n")
    sys.stdout.write(f"{failed} failed\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
