"""Running dedup over documents given in memory, part by part, in a chosen order of units."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from clozeline.configuration.config import validate
from clozeline.pipeline.dedup.stage import DedupStage
from clozeline.pipeline.execution.unit_record import Counts, Output, add_counts
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import Rejection, read_documents, read_rejects, write_documents
from clozeline.pipeline.recipe import Recipe


@dataclass
class Result:
    folder: Path
    counts: Counts

    def documents(self) -> list[Document]:
        return [row for path in sorted((self.folder / "documents").iterdir()) for row in read_documents(path)]

    def rejections(self) -> dict[bytes, Rejection]:
        rows = [row for path in sorted((self.folder / "rejects").iterdir()) for row in read_rejects(path)]
        return {row.uid: row for row in rows}

    def clusters(self, kind: str) -> list[dict[str, Any]]:
        files = sorted((self.folder / "clusters" / kind).iterdir())
        return [row for path in files for row in pa.ipc.open_file(path).read_all().to_pylist()]

    def tree(self) -> dict[str, bytes]:
        published = [path for path in self.folder.rglob("*.arrow") if "tmp" not in path.parts]
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in published}


@pytest.fixture
def run_dedup(tmp_path: Path) -> Callable[..., Result]:
    """`run_dedup(parts, config, shards=1, reverse=False)`: the stage over lists of documents."""
    runs = iter(range(1000))

    def run(
        parts: Sequence[Sequence[Document]], config: dict[str, Any], shards: int = 1, reverse: bool = False
    ) -> Result:
        root = tmp_path / f"run{next(runs)}"
        (root / "clean" / "documents").mkdir(parents=True)
        unit = {"source": "test/a", "source_group": "test", "reader": "jsonl", "start": 0, "end": 1}
        units = [{"unit": number, **unit} for number in range(len(parts))]
        plan = {"format": 1, "shards": shards, "inputs": [], "units": units}
        (root / "clean" / "plan.json").write_text(json.dumps(plan))
        for number, part in enumerate(parts):
            write_documents(root / "clean" / "documents" / f"{number:06d}.arrow", part)
        recipe = validate(Recipe, {"corpus": "c", "output": str(root), "dedup": config}, "test")
        object.__setattr__(recipe, "clean", True)  # that the recipe has the stage is all that dedup looks at
        stage = DedupStage(recipe)
        total: Counts = {}
        for work in stage.passes():
            for number in sorted(range(work.units), reverse=reverse):
                counts = work.run(number, Output(stage.folder))
                stage.check(counts)
                add_counts(total, counts)
        stage.check(total)
        return Result(stage.folder, total)

    return run
