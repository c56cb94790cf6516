"""CONTRIBUTING.md and the Makefile: folders, modules and files that they name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clozeline.__main__ import commands
from tests import file_times

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PACKAGES = ("clozeline", "pipeline", "train", "model", "tools")


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_lists_the_folders_of_a_package(package: str) -> None:
    part = re.search(rf"^{package}/ .*\n((?: .*\n)*)", TEXT, flags=re.MULTILINE)
    assert part is not None
    listed = re.findall(r"^    (\w+)/ ", part[1], flags=re.MULTILINE)
    folders = {path.parent.name for path in (ROOT / package).glob("*/__init__.py") if not path.parent.is_symlink()}
    assert sorted(listed) == sorted(folders)
    named = re.findall(r"(?<=\s)(\w+\.py)(?=\s)", part[1])
    assert not [name for name in named if not (ROOT / package / name).is_file()]
    inner = re.findall(r"^    (\w+)/ .*", part[1], flags=re.MULTILINE)
    lines = re.findall(r"^    \w+/ (.*)", part[1], flags=re.MULTILINE)
    for folder, line in zip(inner, lines, strict=True):
        assert not [name for name in re.findall(r"(\w+)/", line) if not (ROOT / package / folder / name).is_dir()]


def test_the_makefile_starts_modules_files_and_commands_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    modules = {name for name in re.findall(r"python -m (\S+)", makefile) if name.startswith("tests.")}
    files = {f"{module.replace('.', '/')}.py" for module in modules} | set(re.findall(r"python (\S+\.py)", makefile))
    assert files
    assert not [file for file in files if not (ROOT / file).is_file()]
    known = {name for group in commands().values() for name in group}
    assert set(re.findall(r"BIN\)/clozeline ([\w-]+)", makefile)) <= known


def test_the_functions_for_random_draws_exist() -> None:
    section = TEXT[TEXT.index("### Randomness") : TEXT.index("### What the contract tests demand")]
    names = {name for name in re.findall(r"`(\w+)[`(]", section) if name.islower()} - {"torch"}
    sources = "".join(path.read_text(encoding="utf-8") for part in PACKAGES for path in (ROOT / part).rglob("*.py"))
    assert len(names) > 5
    assert not [name for name in names if f"def {name}(" not in sources]


def test_shared_code_is_next_to_the_file_to_copy() -> None:
    rows = re.findall(r"^\| an? .*?\| .*?`([\w/]+)/\w+\.py`.*?\| .*?\| (.*?) \|", TEXT, flags=re.MULTILINE)
    shared = [(folder, name) for folder, cell in rows for name in re.findall(r"`(_\w+\.py)`", cell)]
    assert len(shared) > 15
    assert not [(folder, name) for folder, name in shared if not (ROOT / folder / name).is_file()]


def test_the_longest_test_files_exist_and_are_in_order() -> None:
    rows = re.findall(r"^\| `(tests/[\w/]+\.py)` \| \d+ \| ([\d.]+) \|$", TEXT, flags=re.MULTILINE)
    assert not [file for file, _ in rows if not (ROOT / file).is_file()]
    assert [float(seconds) for _, seconds in rows] == sorted((float(seconds) for _, seconds in rows), reverse=True)
    assert len(rows) == file_times.SHOWN
    (plugin,) = re.findall(r'PYTEST_ADDOPTS="-p ([\w.]+)"', TEXT)
    assert plugin == file_times.__name__
