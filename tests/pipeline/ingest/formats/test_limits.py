from __future__ import annotations

import dataclasses

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import Limits


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Limits)])
def test_every_limit_is_a_whole_number_above_0(name: str) -> None:
    assert getattr(validate(Limits, {name: 1}, "test"), name) == 1
    for wrong in (0, -1, 1.5, "many"):
        with pytest.raises(ConfigurationError, match=name):
            validate(Limits, {name: wrong}, "test")
