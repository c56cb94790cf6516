"""Labs: `clozeline lab` writes them, Jupyter runs them, and each exercise has all of its parts."""

import json
import re

import nbformat
import pytest

from clozeline.tools.start.lab import (
    Cell,
    Lab,
    LabHead,
    all_labs,
    files_of,
    main,
    page_of,
    read_lab,
)
from docs.generate.labs import RanCell, find_unprinted, run_lab

PARTS = (
    r"## \d+ \S.*\n\n\*Lecture: \S[^*]*\. Time: \d+ seconds?\.\*$",
    r"^\*\*Predict\.\*\* ",
    r"^```(sh|python)$",
    r"^\*\*Compare\.\*\* ",
    r"^\*\*Question\.\*\* ",
    r"^<details><summary>Answer</summary>\n\n(?:.|\n)*?\n\n</details>$",
)
"""What an exercise has, in this order."""


def written_cells(notebook):
    """Return the cells of a notebook without the first one, which only sets it up."""
    return [
        (cell["cell_type"], "".join(cell["source"]).removeprefix("%%shell\n"))
        for cell in notebook["cells"][1:]
    ]


@pytest.mark.parametrize("name", all_labs())
def test_the_notebook_is_valid_and_has_the_cells_of_the_page(tmp_path, name):
    assert main([name.removeprefix("lab"), f"output={tmp_path}"]) == 0

    notebook = json.loads((tmp_path / f"{name}.ipynb").read_text(encoding="utf-8"))
    nbformat.validate(notebook)
    page = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    pieces = re.split(r"^```(?:sh|python)\n(.*?)\n```$", page, flags=re.MULTILINE | re.DOTALL)

    assert [source for kind, source in written_cells(notebook) if kind == "code"] == pieces[1::2]

    texts = "\n\n".join(source for kind, source in written_cells(notebook) if kind == "markdown")

    assert texts.split() == " ".join(pieces[::2]).split()


@pytest.mark.parametrize("name", all_labs())
def test_an_exercise_has_all_parts(name):
    lab = read_lab(name)
    exercises = re.split(r"^(?=## )", page_of(lab), flags=re.MULTILINE)[1:]

    assert 4 <= len(exercises) <= 8

    for number, exercise in enumerate(exercises, 1):
        assert exercise.startswith(f"## {number} ")

        position = 0
        for part in PARTS:
            found = re.search(part, exercise[position:], flags=re.MULTILINE)

            assert found is not None, (exercise.partition("\n")[0], part)

            position += found.end()

        assert exercise.count("<details>") == 1

    seconds = sum(map(int, re.findall(r"Time: (\d+) second", page_of(lab))))

    assert lab.head.minutes * 60 == pytest.approx(seconds, abs=30)


@pytest.mark.parametrize("name", all_labs())
def test_the_linked_words_are_in_the_glossary_that_is_written(name):
    lab = read_lab(name)
    words = set(re.findall(r"\]\(glossary\.md#([\w-]+)\)", page_of(lab)))
    written = files_of(lab).get("glossary.md", b"").decode()
    headings = re.findall(r"^## (.*)$", written, flags=re.MULTILINE)

    assert words <= {heading.lower().replace(" ", "-") for heading in headings}


def test_all_labs_take_twenty_minutes():
    assert sum(read_lab(name).head.minutes for name in all_labs()) <= 20


def test_no_work_of_a_student_is_overwritten(tmp_path, capsys):
    for _ in range(2):
        assert main(["1", f"output={tmp_path}"]) == 0

    notebook = tmp_path / "lab1.ipynb"
    notebook.write_text("my answers", encoding="utf-8")
    (tmp_path / "lab1.md").unlink()

    assert main(["1", f"output={tmp_path}"]) == 64
    assert str(notebook) in capsys.readouterr().err
    assert notebook.read_text(encoding="utf-8") == "my answers"
    assert not (tmp_path / "lab1.md").exists()


def test_a_lab_of_one_minute_is_named_so(capsys):
    assert main([]) == 0
    assert " 1 minute of" in capsys.readouterr().out


def test_an_unknown_lab_is_refused_and_the_known_ones_are_named(capsys):
    assert main(["77"]) == 64

    message = capsys.readouterr().err

    assert all(name.removeprefix("lab") in message for name in all_labs())


def test_jupyter_runs_the_first_exercise(tmp_path):
    lab = read_lab("lab1")
    cells = [*run_lab(lab, tmp_path, exercises=1)]

    assert cells
    assert [cell for cell in cells if not cell.is_right] == []
    assert {cell.outputs for cell in cells if cell.cell.kind == "sh"} == {1}


def test_a_number_that_no_cell_printed_is_found():
    text = "# L\n\n## 1 A\n\n```sh\nx\n```\n\nWe saw 0.564, 0.07, 1,024, 13 % and 2.5.\n\n## 2 B\n"
    head = LabHead(minutes=1, files=[], computed=["2.5", "9.9"])
    lab = Lab("lab9", "L", head, [Cell("markdown", text)])
    ran = RanCell("1 A", lab.cells[0], "0.5633 0.0720 1024 0.13", 0.0, is_right=True, outputs=1)

    assert find_unprinted(lab, [ran]) == ["1 A: 0.564", "computed: 9.9"]


@pytest.mark.slow
@pytest.mark.parametrize("name", all_labs())
def test_jupyter_runs_all_cells(tmp_path, name):
    lab = read_lab(name)
    cells = [*run_lab(lab, tmp_path)]

    assert [cell for cell in cells if not cell.is_right] == []
    assert find_unprinted(lab, cells) == []
