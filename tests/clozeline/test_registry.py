"""Algorithms found by the name of their file."""

from pathlib import Path

import pytest

from clozeline.model.registries import HEADS
from clozeline.pipeline.registries import OBJECTIVES, SENTENCES
from tests.refusals import refused
from tests.temporary_module import temporary_module


def test_names_are_the_public_files_of_a_folder():
    folder = Path(__file__).parents[2] / "pipeline/text/sentences"

    assert SENTENCES.available() == sorted(path.stem for path in folder.glob("[!_]*.py"))
    assert OBJECTIVES.load_class("masked_lm").__name__ == "MaskedLM"

    chosen = OBJECTIVES.resolve({"name": "masked_lm", "max_length": 9})

    assert OBJECTIVES.resolve(chosen.as_dict()) == chosen
    assert chosen.as_dict()["max_length"] == 9


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("regx", "no algorithm in pipeline/text/sentences is called 'regx'; did you mean 'regex'"),
        (
            "zzz",
            "no algorithm in pipeline/text/sentences is called 'zzz'; known: lines, phrases, regex",
        ),
        ({"option": 1}, "expected a name or a mapping with 'name'"),
        ({"name": "lines", "option": 1}, "lines: unknown key 'option'"),
    ],
)
def test_a_wrong_choice_names_what_there_is(entry, message):
    with refused(message):
        SENTENCES.resolve(entry)


def test_a_class_is_found_by_the_name_of_its_file(tmp_path):
    source = (
        "from clozeline.model.heads.lm import LmHead\n\nclass Other:\n    pass\n\n\nclass "
        "TwoWordsHead:\n    pass\n"
    )
    with temporary_module(HEADS.package, "two_words", source, tmp_path):
        assert "two_words" in HEADS.available()
        assert HEADS.load_class("two_words").__name__ == "TwoWordsHead"

    source = "from clozeline.model.heads.lm import LmHead as LmAgainHead\n"
    holds_none = refused("expected a class named like the file")
    with temporary_module(HEADS.package, "lm_again", source, tmp_path), holds_none:
        HEADS.load_class("lm_again")

    assert "two_words" not in HEADS.available()
