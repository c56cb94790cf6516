"""Registry folders and the algorithms in them, read from the source without importing it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("pipeline", "model", "train")
_LOOKED_UP = re.compile(r"""\b(?:OneOf|names|find|choose)\(\s*["'](clozeline\.(?:pipeline|model|train)\.[\w.]+)["']""")


@cache
def registries() -> dict[str, Path]:
    """Return each package in which the product looks algorithms up by name, and its folder."""
    sources = (path.read_text(encoding="utf-8") for part in PARTS for path in sorted((ROOT / part).rglob("*.py")))
    packages = sorted({package for source in sources for package in _LOOKED_UP.findall(source)})
    return {package: ROOT / package.removeprefix("clozeline.").replace(".", "/") for package in packages}


def algorithms(package: str) -> list[Path]:
    """Return the file of each algorithm in a registry."""
    return sorted(registries()[package].glob("[!_]*.py"))


def values_in_tests(request: pytest.FixtureRequest, parameter: str) -> list[str]:
    """Return the values of a parameter in the tests that will run of a file: its fixtures prepare these only."""
    cases = (getattr(item, "callspec", None) for item in request.session.items if item.path == request.path)
    return sorted({case.params[parameter] for case in cases if case and parameter in case.params})
