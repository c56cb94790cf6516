from tests.train.conftest import shards as shards
