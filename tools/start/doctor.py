"""Examine this machine: `clozeline doctor [output=DIR]`.

Shows what is here, what will be slow, and which extensions there are. The exit code is 0, or 64 if
something needed is missing.
"""

import importlib.metadata
import os
import platform
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, show_controls
from clozeline.extension_list import explain_unused, find_extensions
from clozeline.foreign_code import import_module
from clozeline.memory import find_cores
from clozeline.native.library import missing_note
from clozeline.tools.command import OutputPath, run_as_script, run_tool


@config_class
class DoctorSettings:
    """Settings of `clozeline doctor`."""

    output: OutputPath = Path()
    """Folder in which shards and runs will be written."""


class Finding(NamedTuple):
    """One property of the machine, and what follows from it; "" where all is well."""

    name: str
    found: str
    advice: str = ""
    is_missing: bool = False


def examine(output: Path) -> Iterator[Finding]:
    """Yield the findings about this machine."""
    yield Finding("Python", platform.python_version())
    for name, requirement in _find_absent_packages():
        yield Finding(name, "not installed", f"pip install '{requirement}'", is_missing=True)

    try:
        import torch
    except (ImportError, OSError) as error:  # a library of its build may be missing
        yield Finding(
            "torch",
            f"cannot be imported: {error}",
            "install it again: pip install torch",
            is_missing=True,
        )
    else:
        yield Finding("torch", f"{torch.__version__}, {torch.get_num_threads()} threads")
        names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        slow = (
            ""
            if names
            else "training runs on the CPU: minutes for millions of parameters, weeks for BERT"
        )
        yield Finding("GPUs", ", ".join(names) or "none", slow)

    compiler = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++")
    absent = (
        ""
        if compiler
        else "DeepSpeed builds operators with it: install g++ (build-essential), or set CXX"
    )

    yield Finding("C++ compiler", compiler or "none", absent, is_missing=not compiler)
    reason, _, advice = (missing_note() or "in use").partition(": ")
    yield Finding("compiled module", reason, advice)
    yield Finding("cores", f"{find_cores()}")

    memory = psutil.virtual_memory().total
    small = (
        "use small units: plan.unit_bytes=16777216, and executor.workers=1"
        if memory < 4 * 2**30
        else ""
    )

    yield Finding("memory", f"{memory / 2**30:.1f} GiB", small)
    folder = next(
        folder for folder in (output.absolute(), *output.absolute().parents) if folder.is_dir()
    )
    free = shutil.disk_usage(folder).free
    low = (
        "a run of the pipeline needs about four times the size of its text"
        if free < 10 * 2**30
        else ""
    )

    yield Finding("disk", f"{free / 2**30:.1f} GiB free in {folder}", low)
    yield from _examine_extensions()


def _find_absent_packages() -> Iterator[tuple[str, str]]:
    """Yield what Clozeline needs and is not installed: name, requirement."""
    for requirement in importlib.metadata.requires("clozeline") or []:
        if "extra ==" in requirement:
            continue
        name = re.split(r"[\s<>=!~\[;(]", requirement)[0]
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield name, requirement


def _examine_extensions() -> Iterator[Finding]:
    for name, each in find_extensions().items():
        found = f"extension of {each.distribution}: {each.summary}"
        advice = ""
        if why := explain_unused(name):
            advice = f"not used: {why}"
        elif each.distribution != "clozeline":
            try:
                import_module(each.package)
            except ConfigurationError as error:
                advice = str(error)
        yield Finding(name, found, advice)


def _show_findings(settings: DoctorSettings) -> None:
    findings = list(examine(settings.output))
    for name, found, advice, _ in findings:
        print(show_controls(f"{name:<16} {found}" + f"\n{'':<16} → {advice}" * bool(advice)))
    if missing := [finding.name for finding in findings if finding.is_missing]:
        raise ConfigurationError(f"missing: {', '.join(missing)}; the lines above say what to do")


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, DoctorSettings, _show_findings, prints=True)


if __name__ == "__main__":
    run_as_script(main)
