"""Algorithms found by the name of their file."""

from __future__ import annotations

import pytest

from pipeline.errors import ConfigurationError
from pipeline.registry import choose, find, names
from tests.temporary_module import temporary_module


def test_names_are_the_public_files_of_a_folder():
    assert names("pipeline.sentences") == ["lines", "regex"]
    assert find("pipeline.objectives", "masked_lm").__name__ == "MaskedLM"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("regx", "no 'regx' in pipeline/sentences; did you mean 'regex'"),
        ("zzz", "no 'zzz' in pipeline/sentences; known: lines, regex"),
        ({"option": 1}, "expected a name or a mapping with 'name'"),
        ({"name": "lines", "option": 1}, "lines: unknown key 'option'"),
    ],
)
def test_a_wrong_choice_names_what_there_is(entry, message):
    with pytest.raises(ConfigurationError, match=message):
        choose("pipeline.sentences", entry)


def test_a_choice_is_plain_data_again():
    chosen = choose("pipeline.objectives", {"name": "masked_lm", "max_length": 9})
    assert choose("pipeline.objectives", chosen.plain()) == chosen
    assert chosen.plain()["max_length"] == 9


def test_a_file_without_a_class_of_its_name_is_told(tmp_path):
    with (
        temporary_module("pipeline.sentences", "empty", "class Other: pass", tmp_path),
        pytest.raises(ConfigurationError, match=r"pipeline\.sentences\.empty holds no class named like its file"),
    ):
        find("pipeline.sentences", "empty")
