"""Run the cells of labs as Jupyter does, and check what they print.

python -m docs.generate.labs NAME [--folder DIR]
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from clozeline.tools.start.lab import Cell, Lab, all_labs, page_of, read_lab, write_lab

_TAGS: Final = re.compile(r"<style>.*?</style>|<[^>]+>", re.DOTALL)
_FENCE: Final = re.compile(r"^```(?:sh|python)\n.*?^```$", re.MULTILINE | re.DOTALL)
_NUMBER: Final = re.compile(r"(?<![\w.^])(?:\d{1,3}(?:,\d{3})+|\d+\.\d+|\d+(?= %))(?![\w^])")
"""numbers of a text that a cell prints: with decimals, of thousands, in percent"""
_PRINTED: Final = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?")


class RanCell(NamedTuple):
    """A cell of a lab after it ran."""

    title: str
    """of its exercise"""
    cell: Cell
    printed: str
    seconds: float
    is_right: bool
    """whether it ran, and what it printed matches the pattern of the cell"""
    outputs: int
    """pieces of its output, errors included"""


def run_lab(lab: Lab, folder: Path, exercises: int | None = None) -> Iterator[RanCell]:
    """Write a lab, run its notebook, and yield each cell with code; an error ends the lab.

    `exercises`: how many of them to run; default: all.
    """
    write_lab(lab, folder)
    notebook = nbformat.read(folder / f"{lab.name}.ipynb", as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    client: Any = NotebookClient(notebook, timeout=3600, kernel_name="python3", resources=resources)
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
            printed = "".join(map(_text_of, ran.outputs)) or error
            is_right = not error and re.search(cell.shows, printed, re.MULTILINE) is not None
            seconds = time.monotonic() - start
            yield RanCell(title, cell, printed, seconds, is_right, len(ran.outputs))
            if error:
                return


def _text_of(output: Any) -> str:
    """Return the text of an output: printed, or the value of the last expression."""
    if output.output_type == "stream":
        return output.text
    data = output.get("data", {})
    return _TAGS.sub("", data.get("text/html", "")) or data.get("text/plain", "")


def find_unprinted(lab: Lab, cells: Iterable[RanCell]) -> list[str]:
    """Return the numbers that an exercise tells and none of its cells printed.

    They stand after its first cell. What a cell printed is rounded to the digits of the text; a
    trained model may differ on another machine by two units of the last digit, or five percent.
    The numbers `computed` in the head of a lab are those that a reader computes; one that is not
    told is returned, too.
    """
    printed: dict[str, list[float]] = {}
    for cell in cells:
        found = (float(text.replace(",", "")) for text in _PRINTED.findall(cell.printed))
        printed.setdefault(cell.title, []).extend(found)

    missing = []
    told = set()
    for exercise in page_of(lab).split("\n## ")[1:]:
        title, _, text = exercise.partition("\n")
        prose = _FENCE.split(text, maxsplit=1)[-1]
        for number in _NUMBER.findall(_FENCE.sub("", prose)):
            value = float(number.replace(",", ""))
            unit = 10.0 ** -len(number.partition(".")[2])
            off = (2 * unit if lab.head.trained else unit / 2) + 1e-9
            if lab.head.trained and "." in number:  # others are counted
                off = max(off, 0.05 * value)
            values = printed.get(title, [])
            is_printed = any(
                abs(shown - value) <= off or abs(100 * shown - value) <= off for shown in values
            )
            told.add(number)
            if not is_printed and number not in lab.head.computed:
                missing.append(f"{title}: {number}")
    untold = [f"computed: {number}" for number in lab.head.computed if number not in told]
    return missing + untold


def main() -> int:
    """Run one lab; return 1 if a cell failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=all_labs())
    parser.add_argument("--folder", type=Path, help="folder of the lab, kept")
    options = parser.parse_args()

    folder = options.folder or Path(tempfile.mkdtemp(prefix="lab-"))
    lab = read_lab(options.name)
    ran = []
    for cell in run_lab(lab, folder):
        ran.append(cell)
        verdict = "ok" if cell.is_right else f"FAILED; expected: {cell.cell.shows}"
        sys.stdout.write(
            f"## {cell.title}\n{cell.cell.source}\n{cell.printed}\n"
            f"{cell.seconds:.1f} s: {verdict}\n\n"
        )
        sys.stdout.flush()
    failed = [cell for cell in ran if not cell.is_right]
    unprinted = find_unprinted(lab, ran)
    sys.stdout.write(f"{len(failed)} failed; numbers that no cell printed: {unprinted}\n")
    return bool(failed or unprinted)


if __name__ == "__main__":
    sys.exit(main())
