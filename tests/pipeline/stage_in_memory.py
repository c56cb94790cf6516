"""A stage over documents given in memory, part by part, in a chosen order of units."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clozeline.checksummed_json import add_checksum
from clozeline.configuration.config import validate
from clozeline.pipeline.execution.stages import stage_of
from clozeline.pipeline.execution.unit_record import Output, add_counts
from clozeline.pipeline.ingest.documents.files import read_documents, read_rejects, write_documents
from clozeline.pipeline.recipe import Recipe


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
        return json.loads((self.folder / name).read_text(encoding="utf-8"))

    def published(self, pattern):
        """Return the content of each file, intermediates apart."""
        files = [
            path
            for path in self.folder.rglob(pattern)
            if path.is_file() and "tmp" not in path.parts
        ]

        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in files}


def run_in_memory(root, name, parts, config, *, shards=1, reverse=False):
    """Write the parts as documents of `clean`, run the stage over them, and return its folder and
    counts."""
    (root / "clean" / "documents").mkdir(parents=True)
    unit = {"source": "test/a", "source_group": "test", "reader": "jsonl", "start": 0, "end": 1}
    units = [{"unit": number, **unit} for number in range(len(parts))]
    plan = {
        "format": 1,
        "shards": shards,
        "inputs": [],
        "units": units,
        "states": {},
    }
    (root / "clean" / "plan.json").write_text(json.dumps(add_checksum(plan)))
    for number, part in enumerate(parts):
        write_documents(root / "clean" / "documents" / f"{number:06d}.arrow", part)
    keys = {
        "corpus": "c",
        "output": str(root),
        "clean": {"language": None, "filters": []},
        name: config,
    }

    recipe = validate(Recipe, keys, "test")
    stage = stage_of(recipe, name)
    total = {}

    for work in stage.passes():
        for number in sorted(range(work.units), reverse=reverse):
            counts = work.run(number, Output(stage.folder))
            stage.check(counts, complete=False)
            add_counts(total, counts)

    stage.check(total)
    return stage.folder, total
