"""What tests of several folders share."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.crawled_chain import Chain, make_chain

settings.register_profile("no deadline", deadline=None)  # no test depends on how busy the machine is
settings.load_profile("no deadline")


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """The chain up to the shards, made once."""
    return make_chain(tmp_path_factory.mktemp("chain"))
