from functools import partial

import pytest

from tests.built_once import built_once
from tests.clozeline.bench import Bench


@pytest.fixture(scope="session")
def whole(tmp_path_factory, one_rank):
    """Outputs of everything, which all workers share; tests change copies."""
    return Bench(
        built_once(tmp_path_factory, "bench", partial(Bench.made, ranks=one_rank)), one_rank
    )
