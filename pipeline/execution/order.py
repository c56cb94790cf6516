"""The stages in the order they run, found from the folders of `pipeline/`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.errors import ConfigurationError
from pipeline.execution.plan import Plan
from pipeline.execution.stage import Stage
from pipeline.recipe import Recipe, part_of_stage, stage_names

__all__ = ["all_stages", "check_needs", "documents_folder", "stage_of", "stages_of"]


def _class_of(name: str) -> type[Stage[Any, Any]]:
    found: type[Stage[Any, Any]] = part_of_stage(name, "Stage")
    return found


def all_stages() -> list[str]:
    """Return the names of all stages, in the order they run."""
    return sorted(stage_names(), key=lambda name: _class_of(name).place)


def stages_of(recipe: Recipe) -> list[str]:
    """Return the stages of a recipe, in the order they run."""
    return [name for name in all_stages() if recipe.has(name)]


def check_needs(recipe: Recipe) -> None:
    """Check, before any stage runs, that the recipe has the stages that write what others read.

    Raises:
        ConfigurationError: a stage needs another one that the recipe leaves out.
    """
    for stage in stages_of(recipe):
        for key in _class_of(stage).needs:
            if not recipe.has(key):
                raise ConfigurationError(
                    f"the recipe's key '{stage}' needs the key '{key}' too; `{key}: {{}}` takes its defaults"
                )


def stage_of(recipe: Recipe, name: str, plan: Plan | None = None) -> Stage[Any, Any]:
    """Return the stage of a recipe's key; it loads the plan itself where none is given."""
    stage = _class_of(name)(recipe)
    if plan is not None:
        stage.plan = plan
    return stage


def documents_folder(recipe: Recipe, before: str) -> Path:
    """Return the folder of the last stage of the recipe, before the named one, that writes documents.

    Raises:
        ConfigurationError: the recipe has no such stage.
    """
    names = all_stages()
    for name in reversed(names[: names.index(before)]):
        if recipe.has(name) and _class_of(name).writes_documents:
            return recipe.folder(name)
    raise ConfigurationError(f"'{before}' needs documents, but the recipe has no earlier stage that writes them")
