"""A row is right only if its command printed the answer, and a kept row runs again only if needed."""

import re
from pathlib import Path

import pytest
import yaml

from clozeline.__main__ import commands
from docs.generate.rows import (
    Printed,
    Row,
    find_general_patterns,
    find_lines,
    read_rows,
    run_row,
)

CONTENT = yaml.safe_load(
    (Path(__file__).parents[2] / "docs" / "rows.yaml").read_text(encoding="utf-8")
)
FILES = {name: command.file for group in commands().values() for name, command in group.items()}


@pytest.mark.parametrize("row", read_rows(CONTENT), ids=lambda row: row.taught)
def test_an_expression_is_about_the_answer(row):
    """What was typed, and the help of the command, are known before it ran."""
    assert not find_lines(row.shows, row.run)
    for name in re.findall(r"\bclozeline ([a-z-]+)", row.run):
        if name in FILES:
            assert not find_lines(row.shows, FILES[name].read_text(encoding="utf-8")), name


def test_an_expression_that_many_rows_match_is_found():
    def printed(text):
        return Printed(0, text, 1.0)

    ran = {
        Row("Classes", str(share), "", f"^accuracy 0.{share}"): printed(f"accuracy 0.{share}")
        for share in range(5)
    }
    general = Row("Classes", "any", "", "^accuracy")

    assert find_general_patterns(ran) == []
    assert find_general_patterns({**ran, general: printed("accuracy 0.9")}) == [
        "Classes: any: the expression also matches other rows: ^accuracy"
    ]


def test_a_kept_row_runs_again_if_it_does_not_match(tmp_path):
    (tmp_path / "printed").mkdir()
    command = "echo run >> runs; echo answer $(wc -l < runs)"

    first = run_row(Row("", "", command, "answer 1"), tmp_path)
    again = run_row(Row("", "", command, "^answer"), tmp_path)
    other = run_row(Row("", "", command, "answer 2"), tmp_path)

    assert (first.code, first.text) == (0, "answer 1\n")
    assert again == first
    assert other.text == "answer 2\n"


def test_a_failed_command_has_no_answer(tmp_path):
    (tmp_path / "printed").mkdir()
    row = Row("", "", "echo answer; exit 3", "answer")

    assert run_row(row, tmp_path).answers(row) == []
    assert [*(tmp_path / "printed").iterdir()] == []
