"""Running dedup over documents given in memory, part by part, in a chosen order of units."""

import pyarrow as pa
import pytest

from tests.pipeline.stage_in_memory import StageResult, run_in_memory


class Result(StageResult):
    def rejections(self):
        return {row.uid: row for row in self.rejected()}

    def clusters(self, kind):
        files = sorted((self.folder / "clusters" / kind).iterdir())
        return [row for path in files for row in pa.ipc.open_file(path).read_all().to_pylist()]


@pytest.fixture
def run_dedup(tmp_path):
    """`run_dedup(parts, config, shards=1, reverse=False)`: the stage over lists of documents."""
    runs = iter(range(1000))

    def run(parts, config, shards=1, reverse=False):
        root = tmp_path / f"run{next(runs)}"
        return Result(*run_in_memory(root, "dedup", parts, config, shards=shards, reverse=reverse))

    return run
