"""Filter text and drop near-duplicates by datatrove: the peer of `benchmarks/cores.py`.

python -m benchmarks.peers.datatrove_text TEXTS OUTPUT WORKERS
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.filters import GopherQualityFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter


def main(texts: str, output: str, workers: str) -> None:
    """Run the blocks one after another, each with a task for each file."""
    config = MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8)
    files = len(list(Path(texts).iterdir()))

    def run(*blocks: Any, tasks: int = files) -> None:
        with tempfile.TemporaryDirectory() as logs:
            LocalPipelineExecutor(
                [*blocks], tasks=tasks, workers=int(workers), logging_dir=logs
            ).run()

    def folder(name: str) -> str:
        return f"{output}/{name}"

    run(JsonlReader(texts), GopherQualityFilter(), JsonlWriter(folder("clean")))
    run(
        JsonlReader(folder("clean")),
        MinhashDedupSignature(folder("signatures"), config, language="eng"),
    )
    run(
        MinhashDedupBuckets(folder("signatures"), folder("buckets"), config=config),
        tasks=config.num_buckets,
    )
    run(MinhashDedupCluster(folder("buckets"), folder("removed"), config), tasks=1)
    run(
        JsonlReader(folder("clean")),
        MinhashDedupFilter(folder("removed")),
        JsonlWriter(folder("kept")),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
