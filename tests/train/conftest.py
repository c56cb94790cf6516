from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.distributed import RankPool

os.environ.setdefault("DS_ACCELERATOR", "cpu")


@pytest.fixture(scope="session")
def two_ranks() -> Iterator[RankPool]:
    """Two processes with one process group, shared by all tests that inject no fault."""
    pool = RankPool(2)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def one_rank() -> Iterator[RankPool]:
    """One process with a process group of its own."""
    pool = RankPool(1)
    yield pool
    pool.close()
