"""A value is a list of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
from pydantic import TypeAdapter, ValidationError

from clozeline.configuration.one_or_more import ONE_OR_MORE, Names


def test_one_value_is_a_list() -> None:
    names, paths = TypeAdapter(Names), TypeAdapter(Annotated[list[Path], ONE_OR_MORE])
    assert names.validate_python("a") == names.validate_python(["a"]) == ["a"]
    assert paths.validate_python("a") == [Path("a")]
    assert names.validate_python(["a", "b"]) == ["a", "b"]
    with pytest.raises(ValidationError):
        names.validate_python(3)
