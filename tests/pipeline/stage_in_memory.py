"""A stage over documents given in memory, part by part, in a chosen order of units."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clozeline.checksummed_json import add_checksum
from clozeline.configuration.config import validate
from clozeline.pipeline.execution.stages import stage_of
from clozeline.pipeline.execution.unit_record import add_counts
from clozeline.pipeline.ingest.documents.files import (
    documents_name,
    read_documents,
    read_rejects,
    write_documents,
)
from clozeline.pipeline.recipe import Recipe
from tests.pipeline.unit_runs import run_pass


@dataclass
class StageResult:
    """The folder of a stage after its last pass, and its counts."""

    folder: Path
    counts: Any

    def documents(self):
        return [
            row
            for path in sorted((self.folder / "documents").iterdir())
            for row in read_documents(path)
        ]

    def rejected(self):
        return [
            row
            for path in sorted((self.folder / "rejects").iterdir())
            for row in read_rejects(path)
        ]

    def json(self, name):
        return json.loads((self.folder / name).read_text())

    def published(self, pattern):
        """Return the content of each file, intermediates apart."""
        files = [
            path
            for path in self.folder.rglob(pattern)
            if path.is_file() and not {"tmp", "digests"} & set(path.parts)
        ]

        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in files}


def run_in_memory(root, name, parts, config, *, shards=1, reverse=False):
    """Write the parts as documents of `clean`, run the stage over them, and return its folder and
    counts."""
    (root / "clean" / "documents").mkdir(parents=True)
    sources = [f"test/{number:06d}" for number in range(len(parts))]
    unit = {"source_group": "test", "reader": "jsonl", "start": 0, "end": 1}
    plan = {
        "format": 1,
        "shards": shards,
        "inputs": [{"source": source, "bytes": 1} for source in sources],
        "units": [
            {"unit": number, "source": source, **unit} for number, source in enumerate(sources)
        ],
    }
    (root / "clean" / "plan.json").write_text(json.dumps(add_checksum(plan)))
    keys = {
        "corpus": "c",
        "output": str(root),
        "clean": {"language": None, "filters": []},
        name: config,
    }

    stage = stage_of(validate(Recipe, keys, "test"), name)
    for part, documents in zip(stage.plan.names, parts, strict=True):
        write_documents(root / "clean" / documents_name(part), documents)
    total = run_passes(stage, stage.passes(), reverse)
    stage.check(total)
    return stage.folder, total


def run_passes(stage, passes, reverse=False):
    """Run all units of the passes in order, and return the sums of their counts."""
    total = {}
    for work in passes:
        add_counts(total, run_pass(stage, work, reversed if reverse else list))
    return total
