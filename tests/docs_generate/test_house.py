"""The table of what a reader may ignore is current, and no name of an extension escapes it."""

import re

import pytest

from clozeline.extension_list import find_extensions
from docs.generate import house


def without_figures(text):
    return re.sub(r"\d+k", "#", text)


def test_the_table_is_current():
    page = house.PAGE.read_text(encoding="utf-8")
    block = page.partition(house.MARKS[0])[2].partition(house.MARKS[1])[0]

    assert without_figures(block) == without_figures(house.write_block({})), "run `make docs`"


@pytest.mark.parametrize(
    ("extension", "code", "found"),
    [
        ("curation", 'hint = "balance.alpha"', "balance"),
        ("curation", "copies = config.balance", "balance"),
        ("curation", '"""The stage balance."""\nrows = tensor.balance', None),
        ("datatrove", 'raise ValueError("export-documents wrote it")', "export-documents"),
        ("evaluation", 'hint = "run clozeline evaluate RUN"', "clozeline evaluate"),
        ("evaluation", 'hint = "evaluate.every"', None),
        ("evaluation", 'name = "clozeline.extensions.evaluation.scores"', "extensions.evaluation"),
    ],
)
def test_a_name_of_an_extension_is_found_in_another_package(extension, code, found, monkeypatch):
    monkeypatch.setattr(house, "_read_packages", lambda: {"a.py": {*house._read_code(code)}})

    names = house.find_names(find_extensions()[extension])

    assert [*names] == ([(found, "a.py")] if found else [])
