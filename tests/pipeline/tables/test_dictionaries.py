"""Dictionaries in MUSE's format: what is read, and what is refused with file and line."""

import re

import pytest

from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.tables.dictionaries import read_dictionary
from tests.refusals import refused


def test_words_have_all_their_translations(tmp_path):
    path = tmp_path / "en-de.txt"
    path.write_text("Cat Katze\ncat\twilde Katze\n\n  dog   Hund \n")

    assert read_dictionary(path, InputLimits(), "key") == {
        "cat": ["Katze", "wilde Katze"],
        "dog": ["Hund"],
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"cat Katze\ndog\n", "line 2: expected a word and its translation, got 'dog'"),
        (
            b"cat \xff\n",
            "line 1: expected a word and its translation, got 'it is not UTF-8; convert the file",
        ),
        (b"\n \n", "expected lines of a word and its translation, got none"),
    ],
)
def test_a_line_that_is_no_pair_is_refused(tmp_path, content, message):
    path = tmp_path / "en-de.txt"
    path.write_bytes(content)
    with refused(re.escape(str(path)) + ".*" + re.escape(message)):
        read_dictionary(path, InputLimits(), "key")


def test_a_missing_file_names_its_key(tmp_path):
    with refused(r"encode\.code_switch: .*no such file"):
        read_dictionary(tmp_path / "none", InputLimits(), "encode.code_switch")
