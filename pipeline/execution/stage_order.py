"""Find the stages in the folders of `pipeline/`, in the order they run."""

from pathlib import Path
from typing import Any

from clozeline.errors import ConfigurationError
from clozeline.pipeline import all_stages as all_stages
from clozeline.pipeline.execution.plan import Plan
from clozeline.pipeline.execution.stages import Stage
from clozeline.pipeline.recipe import Recipe, part_of_stage


def _class_of(name: str) -> type[Stage[Any, Any]]:
    stage_class: type[Stage[Any, Any]] = part_of_stage(name, "Stage")
    return stage_class


def stages_of(recipe: Recipe) -> list[str]:
    """Return the stages of a recipe, in the order they run."""
    return [name for name in all_stages() if recipe.has(name)]


def check_recipe(recipe: Recipe) -> None:
    """Check, before any stage runs, what the configuration alone tells; all mistakes are in one ConfigurationError."""
    names = stages_of(recipe)
    mistakes = [
        f"the recipe's key '{stage}' needs the key '{key}' too; `{key}: {{}}` takes its defaults"
        for stage in names
        for key in _class_of(stage).needs
        if not recipe.has(key)
    ]
    if not names:
        mistakes.append(f"the recipe has no stage: give the key of at least one of {', '.join(all_stages())}")
    if not mistakes:  # a stage may look at the keys that it needs
        for name in names:
            try:
                mistakes += stage_of(recipe, name).mistakes()
            except ConfigurationError as error:
                mistakes.append(str(error))
    if mistakes:
        raise ConfigurationError("\n".join(dict.fromkeys(mistakes)))


def stage_of(recipe: Recipe, name: str, plan: Plan | None = None) -> Stage[Any, Any]:
    """Return the stage of a recipe's key; it loads the plan itself where none is given."""
    stage = _class_of(name)(recipe)
    if plan is not None:
        stage.plan = plan
    return stage


def documents_folder(recipe: Recipe, before: str) -> Path:
    """Return the folder of the last stage of the recipe, before the named one, that writes documents."""
    names = all_stages()
    for name in reversed(names[: names.index(before)]):
        if recipe.has(name) and _class_of(name).writes_documents:
            return recipe.folder(name)
    raise ConfigurationError(f"'{before}' needs documents, but the recipe has no earlier stage that writes them")


def document_stages() -> list[str]:
    """Return the names of the stages that write documents, in order."""
    return [name for name in all_stages() if _class_of(name).writes_documents]


def last_documents(output: Path) -> Path:
    """Return the folder of the documents that a pipeline leaves; ConfigurationError if it has none."""
    for name in reversed(document_stages()):
        if any((folder := output / name / "documents").glob("*.arrow")):
            return folder
    raise ConfigurationError(f"{output}: expected the documents of a pipeline, got none; run the pipeline again")


def tokenizer_stage(recipe: Recipe) -> Stage[Any, Any]:
    """Return the stage of the recipe that gives the tokenizer; ConfigurationError unless there is exactly one."""
    giving = [name for name in all_stages() if _class_of(name).writes_tokenizer]
    chosen = [name for name in giving if recipe.has(name)]
    if len(chosen) != 1:
        raise ConfigurationError(
            f"the recipe needs one of the keys {' and '.join(map(repr, giving))}, got {' and '.join(chosen) or 'none'};"
            " `train_tokenizer: {}` takes its defaults"
        )
    return stage_of(recipe, chosen[0])
