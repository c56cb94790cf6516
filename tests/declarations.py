"""What the test file of an entry of a registry declares for the tests that run over all entries."""

import importlib.util

from tests.registries import ROOT


def declared(package, name, key, default):
    """Return a name of `tests/PACKAGE/test_NAME.py`, or of the tests of an extension.

    `default` where the file or the name is not there.
    """
    folder = package.rpartition(".")[2]
    modules = [f"tests.{package.removeprefix('clozeline.')}.test_{name}"]
    modules += [
        f"tests.extensions.{path.parents[1].name}.{folder}.test_{name}"
        for path in (ROOT / "tests/extensions").glob(f"*/{folder}/test_{name}.py")
    ]
    found = [module for module in modules if importlib.util.find_spec(module)]
    return getattr(importlib.import_module(found[0]), key, default) if found else default
