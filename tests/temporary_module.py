"""A registry with one more file: what a new algorithm costs is one file, and tests add it for a
moment."""

import importlib
import os
import sys
import textwrap
from contextlib import contextmanager


@contextmanager
def temporary_module(package, name, source, folder):
    """Add `name` with this source to a registry package; the file is written below `folder`."""
    parent = importlib.import_module(package)
    place = folder / package
    place.mkdir(exist_ok=True, parents=True)
    part = place / f".{name}.{os.getpid()}"  # other ranks may import it already
    part.write_text(textwrap.dedent(source), encoding="utf-8")
    part.replace(place / f"{name}.py")
    before = list(parent.__path__)
    parent.__path__ = [*before, str(place)]
    importlib.invalidate_caches()

    try:
        yield
    finally:
        parent.__path__ = before
        sys.modules.pop(f"{package}.{name}", None)
        vars(parent).pop(name, None)
