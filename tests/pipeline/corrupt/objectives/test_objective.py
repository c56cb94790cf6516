"""Options of objectives."""

from __future__ import annotations

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.objectives import build_objective
from tests.pipeline.corruption_cases import WORDS


def test_unknown_options_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="unknown key 'colour'"):
        build_objective({"name": "masked_lm", "colour": "red"}, WORDS)
