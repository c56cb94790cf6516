"""Running the stage over documents given in memory, part by part, in a chosen order of units."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import Rejection
from tests.pipeline.stage_in_memory import StageResult, run_in_memory


class Result(StageResult):
    def rejections(self) -> list[Rejection]:
        return self.rejected()

    def json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text(encoding="utf-8"))

    def tree(self) -> dict[str, bytes]:
        return self.published("*")


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
        return Result(*run_in_memory(tmp_path / f"run{next(runs)}", "decontaminate", parts, config, reverse=reverse))

    return run
