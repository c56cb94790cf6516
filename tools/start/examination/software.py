"""Examine Python, the compiler, and the versions of packages against the pins."""

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from clozeline import HOME
from clozeline.native.build import LIBRARY
from clozeline.native.library import missing_note
from clozeline.tools.start.examination.finding import Finding

_PYTHON: Final = (3, 11)
_COMPILERS: Final = ("c++", "g++", "clang++")
_CONSTRAINTS: Final = HOME / "constraints.txt"
"""The pins; only the repository has them, an installed package has none."""


def examine_software(torch: Any | None) -> Iterator[Finding]:
    """Yield findings about Clozeline, Python, torch, the compiler and the packages."""
    yield Finding("Clozeline", "ok", f"{importlib.metadata.version('clozeline')} in {HOME}")
    yield examine_python(sys.version_info[:2])
    if torch is None:
        yield Finding("torch", "missing", "cannot be imported", "install it again: pip install torch")
    else:
        cuda = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU"
        yield Finding("torch", "ok", f"{torch.__version__}, built for {cuda}, {torch.get_num_threads()} threads")
    yield examine_compiler()
    yield examine_native_module()
    pins = read_pins(_CONSTRAINTS) if _CONSTRAINTS.is_file() else {}
    yield from examine_packages(pins, required_packages())


def examine_python(version: tuple[int, ...]) -> Finding:
    """Return whether this Python is new enough."""
    found = f"{platform.python_version()}, {sys.executable}"
    if version < _PYTHON:
        return Finding("Python", "missing", found, "Clozeline needs Python 3.11 or newer")
    return Finding("Python", "ok", found)


def examine_compiler() -> Finding:
    """Return the C++ compiler, with which DeepSpeed builds its operators."""
    names = [name for name in (os.environ.get("CXX"), *_COMPILERS) if name]
    path = next((path for name in names if (path := shutil.which(name)) is not None), None)
    if path is None:
        advice = "DeepSpeed builds operators with it: install g++ (package build-essential), or set CXX"
        return Finding("C++ compiler", "missing", f"none of {', '.join(names)}", advice)
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return Finding("C++ compiler", "ok", f"{path}: {done.stdout.partition(chr(10))[0]}")


def examine_native_module() -> Finding:
    """Return whether the compiled module is in use."""
    if (note := missing_note()) is None:
        return Finding("native module", "ok", str(LIBRARY))
    reason, _, advice = note.partition(": ")
    return Finding("native module", "slow", reason, advice)


def required_packages() -> list[str]:
    """Return the packages that Clozeline needs, without extras."""
    lines = importlib.metadata.requires("clozeline") or []
    return [re.split(r"[\s<>=!~\[;(]", line)[0] for line in lines if "extra ==" not in line]


def read_pins(path: Path) -> dict[str, str]:
    """Return the exact versions of a constraints file by package name."""
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return {_canonical(name): version for name, pin, version in (line.partition("==") for line in lines) if pin}


def examine_packages(pins: Mapping[str, str], names: list[str]) -> Iterator[Finding]:
    """Yield one finding for packages with the pinned version, and one for each other package."""
    right = 0
    for name in names:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, "missing", "not installed", f"pip install -c constraints.txt {name}")
            continue
        pin = pins.get(_canonical(name), version)
        # a build for another accelerator has a suffix: 2.13.0+cu130
        if version.partition("+")[0] == pin.partition("+")[0]:
            right += 1
        else:
            yield Finding(name, "note", version, f"tested with {pin}; pip install {name}=={pin} if something fails")
    compared = "as pinned in constraints.txt" if pins else "installed; no constraints.txt here to compare with"
    yield Finding("packages", "ok", f"{right} of {len(names)} {compared}")


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
