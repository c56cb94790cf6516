"""Options of code switching are refused outside their ranges."""

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.text.code_switching import CodeSwitchConfig


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "'dictionaries' is missing"),
        ({"dictionaries": []}, "dictionaries: List should have at least 1 item"),
        ({"dictionaries": ["en-de.txt"], "sentence_rate": 0}, "sentence_rate: expected greater than 0"),
        ({"dictionaries": ["en-de.txt"], "word_rate": 1.5}, "word_rate: expected less than or equal to 1"),
        ({"dictionaries": ["en-de.txt"], "rate": 0.5}, "did you mean 'word_rate'"),
    ],
)
def test_a_missing_dictionary_and_an_impossible_rate_are_refused(options, message):
    with pytest.raises(ConfigurationError, match=message):
        validate(CodeSwitchConfig, options, "")


def test_by_default_most_words_of_all_sentences_are_replaced():
    config = validate(CodeSwitchConfig, {"dictionaries": ["en-de.txt"]}, "")
    assert (config.sentence_rate, config.word_rate) == (1.0, 0.9)
