"""Registry folders and the algorithms in them."""

import importlib
import inspect
import re
from functools import cache
from pathlib import Path

from clozeline.registry import find, names

ROOT = Path(__file__).parents[1]
PARTS = ("pipeline", "model", "train", "tools")
_NAMED = re.compile(r"""["'](clozeline\.(?:pipeline|model|train)\.[\w.]+)["']""")


@cache
def registries():
    """Return each package that the source names in a string, as the product looks algorithms up by name; its folder."""
    sources = (path.read_text(encoding="utf-8") for part in PARTS for path in sorted((ROOT / part).rglob("*.py")))
    packages = sorted({package for source in sources for package in _NAMED.findall(source)})
    folders = {package: ROOT / package.removeprefix("clozeline.").replace(".", "/") for package in packages}
    return {package: folder for package, folder in folders.items() if folder.is_dir()}


def algorithms(package):
    """Return the file of each algorithm in a registry, by its name; only classes that name themselves are imported."""
    if not hasattr(importlib.import_module(package), "NAMED_BY"):
        return {path.stem: path for path in sorted(registries()[package].glob("[!_]*.py"))}
    return {name: Path(inspect.getfile(find(package, name))).resolve() for name in names(package)}


def values_in_tests(request, parameter):
    """Return the values of a parameter in the tests that will run of a file: its fixtures prepare these only."""
    cases = (getattr(item, "callspec", None) for item in request.session.items if item.path == request.path)
    return sorted({case.params[parameter] for case in cases if case and parameter in case.params})
