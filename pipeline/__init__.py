"""The offline data pipeline: clean, deduplicate, tokenize, group and corrupt text.

It never imports torch.
"""

import importlib
import sys
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Final, NamedTuple

from clozeline import HOME
from clozeline.errors import ConfigurationError
from clozeline.extension_list import (
    Extension,
    find_extensions,
    list_extensions,
    read_stage,
    refuse_twins,
)

_PACKAGE: Final = "clozeline.pipeline"


class _StageFile(NamedTuple):
    """A file `stage.py`, in a folder of the pipeline or of an extension."""

    package: str
    path: Path
    declared: Mapping[str, Any]
    """its `name`, and stages `after` and `before` which it runs if the recipe has them"""


def all_stages() -> list[str]:
    """Return the names of all stages, in the order in which they run."""
    return [*_find_stages()]


def hidden_stages() -> dict[str, str]:
    """Return the stages of extensions that are not used, each with the name of its extension."""
    return {
        declared["name"]: each.name
        for each in find_extensions().values()
        if each not in list_extensions()
        for declared in each.stages.values()
    }


def stage_module(stage: str, file: str = "stage") -> str:
    """Return the name of a stage's module, such as `clozeline.pipeline.dedup.stage`."""
    return f"{_find_stages()[stage].package}.{file}"


def stage_file(stage: str) -> Path:
    """Return the file of a stage."""
    return _find_stages()[stage].path


def is_of_extension(stage: str) -> bool:
    """Return whether an extension adds a stage."""
    return not _find_stages()[stage].package.startswith(f"{_PACKAGE}.")


def _find_stages() -> Mapping[str, _StageFile]:
    return _order_stages(list_extensions())


@cache
def _order_stages(extensions: tuple[Extension, ...]) -> Mapping[str, _StageFile]:
    """Return the stages of the pipeline and of extensions, by name in running order.

    What `after` and `before` leave open is decided by the names.

    Raises:
        ConfigurationError: two have one name, or the order is a circle.
    """
    own = HOME / "pipeline"
    paths = sorted(own.rglob("stage.py"))
    places = [(_PACKAGE, own, {path: read_stage(path) for path in paths})]
    places += [(each.package, each.folder, {**each.stages}) for each in extensions]
    found = [
        _StageFile(".".join([package, *path.parent.relative_to(folder).parts]), path, declared)
        for package, folder, files in places
        for path, declared in files.items()
    ]
    stages = refuse_twins("stage", found, lambda each: (each.declared["name"], each.path))

    earlier = {name: stages.keys() & {*each.declared["after"]} for name, each in stages.items()}
    for name, each in stages.items():
        for later in stages.keys() & {*each.declared["before"]}:
            earlier[later].add(name)

    sorter = TopologicalSorter(earlier)
    try:
        sorter.prepare()
    except CycleError as error:
        raise ConfigurationError(
            f"no order of stages: each runs after the next one: {', '.join(error.args[1])}; change "
            "their `after` or `before`"
        ) from error

    ordered: dict[str, _StageFile] = {}
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        ordered |= {name: stages[name] for name in ready}
        sorter.done(*ready)
    return ordered


if __name__ == "pipeline":  # `python -m pipeline` must not import the module a second time
    sys.modules[__name__] = importlib.import_module("clozeline.pipeline")
