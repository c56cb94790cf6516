from __future__ import annotations

import pytest

from tests.clozeline.bench import Bench


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Outputs of everything; tests change copies."""
    return Bench.made(tmp_path_factory.mktemp("bench"))
