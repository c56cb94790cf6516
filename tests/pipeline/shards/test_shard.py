import json

import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.shards import ShardInfo, write_shard
from tests.shard_sets import COLUMNS, rows


def test_a_record_survives_json(tmp_path):
    info = write_shard(tmp_path / "x.part", rows(range(9), 4), COLUMNS, block_rows=4, name="x.arrow")
    assert info.path == "x.arrow"
    assert (info.rows, info.tokens, info.longest) == (9, 36, 4)
    assert info.largest_block == 4 * (8 + 2 + 16 + 4 + 1 + 1 + 1) + 4 * 5 + 4 * 4 * 2
    assert ShardInfo.from_json(json.loads(json.dumps(info.to_json()))) == info
    with pytest.raises(IntegrityError, match="not the record"):
        ShardInfo.from_json({"path": "x"})
