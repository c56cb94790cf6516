"""Every registry of the product, and the algorithms in its folder."""

import importlib
import inspect
from pathlib import Path

from clozeline.extension_list import find_extensions
from clozeline.model import registries as of_model
from clozeline.pipeline import registries as of_pipeline
from clozeline.registry import Registry
from clozeline.tools import registries as of_tools
from clozeline.train import registries as of_train

ROOT = Path(__file__).parents[1]
PARTS = (of_pipeline, of_model, of_train, of_tools)
OF_EXTENSIONS = tuple(
    importlib.import_module(f"{each.package}.registries")
    for each in find_extensions().values()
    if (each.folder / "registries.py").is_file()
)
REGISTRIES = [
    value
    for part in (*PARTS, *OF_EXTENSIONS)
    for value in vars(part).values()
    if isinstance(value, Registry)
]


def registries():
    """Return the folder of each registry by its package."""
    return {registry.package: ROOT / registry.folder for registry in REGISTRIES}


def algorithms(package):
    """Return the file of each algorithm in a registry, also those of extensions, by its name.

    Only classes that name themselves are imported.
    """
    (registry,) = (one for one in REGISTRIES if one.package == package)
    if not registry.named_by:
        folders = [registry.folder, f"extensions/*/{registry.address or registry.name}"]
        files = (path for folder in folders for path in sorted(ROOT.glob(f"{folder}/[!_]*.py")))
        return {path.stem: path for path in files}
    return {
        name: Path(inspect.getfile(registry.load_class(name))).resolve()
        for name in registry.available()
    }


def values_in_tests(request, parameter):
    """Return the values of a parameter in the tests that will run of a file: its fixtures prepare
    these only."""
    cases = (
        getattr(item, "callspec", None)
        for item in request.session.items
        if item.path == request.path
    )

    return sorted({case.params[parameter] for case in cases if case and parameter in case.params})
