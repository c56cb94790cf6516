"""Running the stage over documents given in memory, part by part, in a chosen order of units."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clozeline.configuration.config import validate
from clozeline.pipeline.decontaminate.stage import DecontaminateStage
from clozeline.pipeline.execution.unit_record import Output, add_counts
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import Rejection, read_documents, read_rejects, write_documents
from clozeline.pipeline.recipe import Recipe


@dataclass
class Result:
    folder: Path
    counts: Any

    def documents(self) -> list[Document]:
        return [row for path in sorted((self.folder / "documents").iterdir()) for row in read_documents(path)]

    def rejections(self) -> list[Rejection]:
        return [row for path in sorted((self.folder / "rejects").iterdir()) for row in read_rejects(path)]

    def json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text(encoding="utf-8"))

    def tree(self) -> dict[str, bytes]:
        files = [path for path in self.folder.rglob("*") if path.is_file() and "tmp" not in path.parts]
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def items(tmp_path: Path) -> Callable[..., str]:
    """`items(texts, name)`: a file of lines of JSON with these texts."""

    def write(texts: Sequence[str], name: str = "items.jsonl") -> str:
        path = tmp_path / name
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def run_stage(tmp_path: Path) -> Callable[..., Result]:
    """`run_stage(parts, config, reverse=False)`: the stage over lists of documents."""
    runs = iter(range(10_000))

    def run(parts: Sequence[Sequence[Document]], config: dict[str, Any], reverse: bool = False) -> Result:
        root = tmp_path / f"run{next(runs)}"
        (root / "clean" / "documents").mkdir(parents=True)
        unit = {"source": "test/a", "source_group": "test", "reader": "jsonl", "start": 0, "end": 1}
        units = [{"unit": number, **unit} for number in range(len(parts))]
        plan = {"format": 1, "shards": 1, "inputs": [], "units": units}
        (root / "clean" / "plan.json").write_text(json.dumps(plan))
        for number, part in enumerate(parts):
            write_documents(root / "clean" / "documents" / f"{number:06d}.arrow", part)
        recipe = validate(Recipe, {"corpus": "c", "output": str(root), "decontaminate": config}, "test")
        object.__setattr__(recipe, "clean", True)  # that the recipe has the stage is all that is looked at
        stage = DecontaminateStage(recipe)
        total: Any = {}
        for work in stage.passes():
            for number in sorted(range(work.units), reverse=reverse):
                counts = work.run(number, Output(stage.folder))
                stage.check(counts)
                add_counts(total, counts)
        stage.check(total)
        return Result(stage.folder, total)

    return run
