from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.built_once import built_once
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
    """Outputs of everything, which all workers share; tests change copies."""
    return Bench(built_once(tmp_path_factory, "bench", partial(Bench.made, ranks=ranks)), ranks)
