"""The wheel that `pip install` uses has every file, below one name."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("clozeline", "configs", "model", "pipeline", "tools", "train")

pytestmark = pytest.mark.slow


def test_nothing_generic_is_installed_and_no_file_is_missing(tmp_path):
    pip = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        tmp_path,
        ROOT,
    ]

    subprocess.run(pip, check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())

    assert {name.partition("/")[0] for name in names} == {"clozeline", "clozeline-0.1.0.dist-info"}

    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    sources = [
        path.relative_to(ROOT).as_posix() for path in paths if "__pycache__" not in path.parts
    ]
    expected = {name if name.startswith("clozeline/") else f"clozeline/{name}" for name in sources}

    assert {name for name in names if name.startswith("clozeline/")} == expected
