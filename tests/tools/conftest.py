from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.small_run import build


@pytest.fixture(scope="session")
def shard_sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Output folder of a small pipeline run; never written to by a test."""
    return build(tmp_path_factory.mktemp("sets") / "out")
