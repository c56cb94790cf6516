"""The error of a damaged block keeps its facts on the way from another process."""

import pickle
from pathlib import Path

from clozeline.pipeline.shards import DamagedBlock


def test_a_damaged_block_survives_pickling():
    error = DamagedBlock(Path("a/shard.arrow"), 7, "an xxh3-128", "another")
    found = pickle.loads(pickle.dumps(error))
    assert str(found) == str(error)
    assert str(error).startswith("a/shard.arrow: block 7: expected an xxh3-128, got another; copy it again")
    assert (found.shard, found.block, found.expected, found.got) == ("a/shard.arrow", 7, "an xxh3-128", "another")
