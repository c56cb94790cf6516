import pytest

from tests.train.masked_set import write_masked_sets


@pytest.fixture(scope="session")
def shards(tmp_path_factory):
    """The manifest of a masked-LM set of 240 rows with 45 held-out ones, which no test changes."""
    return write_masked_sets(tmp_path_factory.mktemp("shards"))
