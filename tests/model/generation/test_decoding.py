"""Options that contradict each other."""

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.model.generation.decoding import Decoding


@pytest.mark.parametrize(
    "options",
    [
        *(
            {"mode": "greedy", "top_k": 5},
            {"mode": "greedy", "top_p": 0.5},
            {"mode": "greedy", "temperature": 0.5},
            {"width": 2},
            {"mode": "sample", "length_penalty": 1.0},
        ),
        *(
            {"steps": 2},
            {"mode": "unmask", "min_tokens": 2},
            {"mode": "unmask", "width": 2, "steps": 3},
        ),
        *(
            {"mode": "sample", "temperature": -1.0},
            {"mode": "sample", "top_p": 0.0},
            {"topk": 1},
            {"min_tokens": 65},
        ),
    ],
    ids=str,
)
def test_wrong_options_are_refused(options):
    with pytest.raises(ConfigurationError):
        validate(Decoding, options, "test")


@pytest.mark.parametrize(
    ("options", "drawn"),
    [
        ({}, False),
        ({"mode": "beam"}, False),
        ({"mode": "sample"}, True),
        ({"mode": "unmask"}, False),
        ({"mode": "unmask", "order": "certain"}, False),
        ({"mode": "unmask", "order": "random"}, True),
        *(({"mode": "unmask", name: 1}, True) for name in ("temperature", "top_k", "top_p")),
    ],
)
def test_what_is_drawn_depends_on_a_seed(options, drawn):
    assert Decoding(**options).is_random is drawn
