from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clozeline.bench import Bench
from tests.distributed import RankPool


@pytest.fixture(scope="session")
def ranks() -> Iterator[RankPool]:
    """One rank of the trainer, which is kept."""
    pool = RankPool(1)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory, ranks: RankPool) -> Bench:
    """Outputs of everything; tests change copies, or put back what they change."""
    return Bench.made(tmp_path_factory.mktemp("bench") / "bench", ranks)
