"""Algorithms found by the name of their file."""

from dataclasses import field
from pathlib import Path
from typing import Any

import pytest

from clozeline.configuration.config import config_class, describe
from clozeline.errors import ConfigurationError
from clozeline.registry import Default, choose, find, names
from tests.temporary_module import temporary_module

SENTENCES, OBJECTIVES, HEADS = (
    "clozeline.pipeline.text.sentences", "clozeline.pipeline.corrupt.objectives", "clozeline.model.heads"
)  # fmt: skip


def test_names_are_the_public_files_of_a_folder():
    folder = Path(__file__).parents[2] / "pipeline/text/sentences"
    assert names(SENTENCES) == sorted(path.stem for path in folder.glob("[!_]*.py"))
    assert find(OBJECTIVES, "masked_lm").__name__ == "MaskedLM"
    chosen = choose(OBJECTIVES, {"name": "masked_lm", "max_length": 9})
    assert choose(OBJECTIVES, chosen.plain()) == chosen
    assert chosen.plain()["max_length"] == 9


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("regx", "no 'regx' in pipeline/text/sentences; did you mean 'regex'"),
        ("zzz", "no 'zzz' in pipeline/text/sentences; known: lines, phrases, regex"),
        ({"option": 1}, "expected a name or a mapping with 'name'"),
        ({"name": "lines", "option": 1}, "lines: unknown key 'option'"),
    ],
)
def test_a_wrong_choice_names_what_there_is(entry, message):
    with pytest.raises(ConfigurationError, match=message):
        choose(SENTENCES, entry)


def test_a_class_is_found_by_the_name_of_its_file(tmp_path):
    source = "from clozeline.model.heads.lm import Lm\n\nclass Other:\n    pass\n\n\nclass TwoWords:\n    pass\n"
    with temporary_module(HEADS, "two_words", source, tmp_path):
        assert "two_words" in names(HEADS)
        assert find(HEADS, "two_words").__name__ == "TwoWords"
    source = "from clozeline.model.heads.lm import Lm as LmAgain\n"
    holds_none = pytest.raises(ConfigurationError, match="holds no class named like its file")
    with temporary_module(HEADS, "lm_again", source, tmp_path), holds_none:
        find(HEADS, "lm_again")
    assert "two_words" not in names(HEADS)


@config_class
class Splitters:
    one: Any = field(default_factory=Default(SENTENCES, "lines"))
    list_of: Any = field(default_factory=Default(SENTENCES, ["regex", "lines"]))
    none_there: Any = field(default_factory=Default(SENTENCES, ("nowhere",)))


def test_defaults_are_algorithms_of_which_help_needs_only_the_names():
    assert [default for _, _, default, _ in describe(Splitters)] == ["lines", '["regex", "lines"]', '["nowhere"]']
    lines, regex = (choose(SENTENCES, name) for name in ("lines", "regex"))
    with pytest.raises(ConfigurationError, match="no 'nowhere' in pipeline/text/sentences"):
        Splitters()
    made = Splitters(none_there=())
    assert (made.one, made.list_of) == (lines, [regex, lines])
    assert Default(SENTENCES, ("lines",))() == (lines,)
