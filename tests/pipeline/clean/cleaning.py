"""Running the stage `clean` on files, in this process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clozeline.configuration.config import validate
from clozeline.errors import PartialFailureError
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.runner import run_recipe
from clozeline.pipeline.execution.stages import StageSummary
from clozeline.pipeline.execution.unit_record import UnitRecord, read_records
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import Rejection, read_documents, read_rejects
from clozeline.pipeline.recipe import Recipe

LENIENT = {"language": None, "filters": []}
"""Keeps every document that has text."""


@dataclass(frozen=True)
class Cleaned:
    counts: dict[str, Any]
    documents: list[Document]
    rejects: list[Rejection]
    records: list[UnitRecord]
    folder: Path
    summary: StageSummary

    def nonzero(self, group):
        return {name: count for name, count in self.counts.get(group, {}).items() if count}


def recipe_for(source, output, clean=None, **keys):
    data = {
        "corpus": "test",
        "input": source,
        "output": str(output),
        "clean": LENIENT if clean is None else clean,
        "on_error": {"malformed": "accept"},
        **keys,
    }

    return validate(Recipe, data, "test")


def run_clean(source, output, clean=None, *, verify=False, **keys):
    summaries = []

    try:
        recipe = recipe_for(source, output, clean, **keys)
        run_recipe(recipe, None, Progress(), summaries, verify=verify)
    except PartialFailureError:
        if not summaries or summaries[0].counts["documents_out"]:
            raise  # a run that leaves no document fails too, but what it counted is what tests look at

    folder = output / "clean"
    documents = [
        document for path in sorted(folder.glob("documents/*")) for document in read_documents(path)
    ]
    rejects = [reject for path in sorted(folder.glob("rejects/*")) for reject in read_rejects(path)]
    return Cleaned(
        summaries[0].counts,
        documents,
        rejects,
        [*read_records(folder, "main")],
        folder,
        summaries[0],
    )
