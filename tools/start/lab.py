"""Write a lab for a class: exercises with their texts, as a notebook and as a page.

    clozeline lab NUMBER [output=FOLDER]

Writes labNUMBER.ipynb and labNUMBER.md, which have the same cells, and the files that the cells
read. Each exercise asks you to predict a result, runs commands, and ends with a question whose
answer is folded. Without NUMBER, all labs are listed. A file that you changed is not overwritten.
"""

import json
import lzma
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from clozeline import HOME
from clozeline.command_line import Positional
from clozeline.configuration.config import config_class, validate
from clozeline.configuration.overrides import parse_yaml
from clozeline.errors import ConfigurationError, plural
from clozeline.files import publish
from clozeline.tools.command import OutputPath, run_as_script, run_tool

_CONFIGS: Final = HOME / "configs"
_HEAD: Final = re.compile(r"---\n(.*?)---\n", re.DOTALL)
_CODE: Final = re.compile(r"^```(sh|python)\b *([^\n]*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_EXERCISE: Final = re.compile(r"^(?=## )", re.MULTILINE)
_SETUP: Final = """\
# The commands of the cells below are those of this notebook's Python; tables have 120 columns.
import os
import subprocess
import sysconfig

from IPython.core.magic import register_cell_magic
from IPython.display import HTML

os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
os.environ["COLUMNS"] = "120"
# Jupyter asks for colors, with which commands also draw bars that move.
os.environ.pop("FORCE_COLOR", None)


@register_cell_magic
def shell(_, commands):
    # Unlike %%bash, print the output once, at the end, and messages only if a command fails.
    done = subprocess.run(["bash", "-ec", commands], stdout=-1, stderr=-1, text=True)
    print(done.stdout + done.stderr * bool(done.returncode), end="")
    done.check_returncode()


# Labels stay below their tokens on a narrow screen.
HTML("<style>pre { white-space: pre !important; overflow-x: auto }</style>")
"""


@config_class
class LabSettings:
    """Settings of `clozeline lab`."""

    number: Annotated[str | None, Positional(0)] = None
    """number of the lab; none: list the labs"""
    output: OutputPath | None = None
    """folder to write; default: labNUMBER"""


class Cell(NamedTuple):
    """A cell of a lab: a piece of its text, or code to run."""

    kind: str
    """markdown, sh or python"""
    source: str
    shows: str = ""
    """regular expression that the output of the code must match; the student does not see it"""


@config_class
class LabHead:
    """The head of a lab's file."""

    minutes: int
    """time of all cells on two idle cores"""
    files: list[str]
    """files and folders below `configs` that the cells read"""
    computed: list[str] = field(default_factory=list)
    """numbers of its answers that no cell of their exercise prints"""
    trained: bool = False
    """whether its numbers are those of trained models, which differ a little by machine"""


@dataclass(frozen=True)
class Lab:
    """The exercises of a lab."""

    name: str
    title: str
    head: LabHead
    cells: Sequence[Cell]


def all_labs() -> list[str]:
    """Return the names of the labs in order."""
    return sorted(path.stem for path in _CONFIGS.glob("labs/lab*.md"))


def read_lab(name: str) -> Lab:
    """Return a lab of `configs/labs`."""
    text = (_CONFIGS / "labs" / f"{name}.md").read_text(encoding="utf-8")
    head = _HEAD.match(text)
    if head is None:
        raise ConfigurationError(f"{name}.md: expected a head between two lines of ---")
    cells = [*_split_cells(text[head.end() :])]
    title = cells[0].source.partition("\n")[0].removeprefix("# ")
    return Lab(name, title, validate(LabHead, parse_yaml(head[1]), name), cells)


def _split_cells(text: str) -> Iterator[Cell]:
    """Yield the cells of a lab's text: an exercise starts a cell, and code is a cell."""
    texts = _CODE.split(text)
    for index in range(0, len(texts), 4):
        for part in _EXERCISE.split(texts[index]):
            if part.strip():
                yield Cell("markdown", part.strip())
        if index + 1 < len(texts):
            kind, shows, source = texts[index + 1 : index + 4]
            yield Cell(kind, source.rstrip(), shows.strip())


def page_of(lab: Lab) -> str:
    """Return a lab as Markdown."""
    parts = [
        cell.source if cell.kind == "markdown" else f"```{cell.kind}\n{cell.source}\n```"
        for cell in lab.cells
    ]
    return "\n\n".join(parts) + "\n"


def notebook_of(lab: Lab) -> str:
    """Return a lab as a Jupyter notebook of format 4.5; a shell runs the cells of kind `sh`."""
    cells = []
    for index, cell in enumerate([Cell("python", _SETUP.rstrip()), *lab.cells]):
        source = f"%%shell\n{cell.source}" if cell.kind == "sh" else cell.source
        written: dict[str, Any] = {
            "cell_type": "markdown" if cell.kind == "markdown" else "code",
            "id": f"cell-{index:02}",
            "metadata": {} if index else {"jupyter": {"source_hidden": True}},
            "source": source.splitlines(keepends=True),
        }
        if cell.kind != "markdown":
            written |= {"execution_count": None, "outputs": []}
        cells.append(written)

    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def files_of(lab: Lab) -> dict[str, bytes]:
    """Return the content of each file that a lab needs, by its path in the student's folder."""
    files = {
        f"{lab.name}.md": page_of(lab).encode(),
        f"{lab.name}.ipynb": notebook_of(lab).encode(),
    }
    for name in lab.head.files:
        source = _CONFIGS / name
        for path in sorted(source.rglob("*.*")) if source.is_dir() else [source]:
            relative = path.relative_to(source.parent)
            content = path.read_bytes()
            if path.suffix == ".xz":
                relative = relative.with_suffix("")
                content = lzma.decompress(content)
            files[str(relative)] = content
    return files


def write_lab(lab: Lab, folder: Path) -> None:
    """Write a lab and its files.

    Raises:
        ConfigurationError: the folder has one of the files with another content.
    """
    files = {folder / name: content for name, content in files_of(lab).items()}
    for path, content in files.items():
        if path.exists() and path.read_bytes() != content:
            raise ConfigurationError(
                f"{path} has changed since it was written; it may hold your work, so nothing is "
                "overwritten: name another folder (output=FOLDER), or move the file away"
            )

    for path, content in files.items():
        with publish(path) as temporary:
            temporary.write_bytes(content)


def _lab(settings: LabSettings) -> None:
    if settings.number is None:
        for name in all_labs():
            lab = read_lab(name)
            time = plural(lab.head.minutes, "minute")
            print(f"{name.removeprefix('lab')}  {lab.title}, {time} of computing")
        print("Write one: clozeline lab 1 output=lab1")
        return

    name = f"lab{settings.number}"
    if name not in all_labs():
        known = ", ".join(known.removeprefix("lab") for known in all_labs())
        raise ConfigurationError(f"there is no lab {settings.number}; the labs are {known}")

    folder = settings.output or Path(name)
    write_lab(read_lab(name), folder)
    print(f"Open {folder / name}.ipynb in Jupyter, or type the commands of {folder / name}.md in")
    print(f"the folder {folder}.")


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, LabSettings, _lab)


if __name__ == "__main__":
    run_as_script(main)
