from __future__ import annotations

from typing import Any

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.block_options import BlockRows, Compression


@pytest.mark.parametrize("rows", [1, 1920, 65536, "auto"])
def test_rows_of_a_block(rows: Any) -> None:
    assert validate(BlockRows, rows, "") == rows


@pytest.mark.parametrize("rows", [0, 65537, "all", 1.5])
def test_wrong_rows_of_a_block(rows: Any) -> None:
    with pytest.raises(ConfigurationError):
        validate(BlockRows, rows, "group")


@pytest.mark.parametrize(("options", "right"), [({}, True), ({"codec": "none"}, True), ({"level": 20}, False)])
def test_compression(options: dict[str, Any], right: bool) -> None:
    if right:
        assert validate(Compression, options, "").codec == options.get("codec", "zstd")
    else:
        with pytest.raises(ConfigurationError, match="level"):
            validate(Compression, options, "")
