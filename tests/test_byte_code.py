"""Packages without compiled byte code, as uv installs them: their warnings at the first import are
not ours to fail by."""

import os
import subprocess
import sys

from tests.recipes import ROOT

IMPORTS = "tests/extensions/inference/test_extract_features.py"
NAME = "test_an_imported_body_without_a_head_has_the_vectors_of_the_run"


def test_a_first_import_of_every_large_library_passes(tmp_path):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"{IMPORTS}::{NAME}"]
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(tmp_path)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
