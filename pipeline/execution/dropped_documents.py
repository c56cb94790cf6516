"""Remove documents that nothing needs any more: the key `drop` of a recipe."""

import shutil
from pathlib import Path

from clozeline.configuration.strict_yaml import parse_yaml
from clozeline.pipeline.execution.free_space import size_text
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.unit_record import DOCUMENTS_FOLDER
from clozeline.pipeline.recipe import Recipe


def has_dropped(folder: Path) -> bool:
    """Return whether the key `drop` of a run has removed the documents of a stage; `folder` is that of the stage."""
    config = folder / "config.yaml"
    if (folder / DOCUMENTS_FOLDER).is_dir() or not config.is_file():
        return False
    return folder.name in (parse_yaml(config.read_text(encoding="utf-8")).get("drop") or [])


def drop_documents(recipe: Recipe, progress: Progress) -> None:
    """Remove the documents of the stages that the recipe drops; records, rejects and reports stay."""
    for name in recipe.drop:
        folder = recipe.folder(name) / DOCUMENTS_FOLDER
        if folder.is_dir():
            size = sum(path.stat().st_size for path in folder.iterdir())
            shutil.rmtree(folder)
            progress.report(f"{name}: documents removed, {size_text(size)} freed")
