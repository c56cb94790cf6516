"""What the test file of an entry of a registry declares for the tests that run over all entries."""

import importlib.util


def declared(package, name, key, default):
    """Return a name of `tests/PACKAGE/test_NAME.py`, `default` where the file or the name is not
    there."""
    module = f"tests.{package.removeprefix('clozeline.')}.test_{name}"
    return (
        getattr(importlib.import_module(module), key, default)
        if importlib.util.find_spec(module)
        else default
    )
