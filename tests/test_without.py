"""The main line without extensions: its commands, its shards to the last byte, a training.

    make without NAMES="curation exports"

`make test` hides all of them; `make test-all` also each one.
"""

import json
import os
import subprocess
import sys

import pytest

from clozeline.extension_list import find_extensions, list_extensions
from tests.guard import EXPECTED, ROOT, Guard, differences, hash_files

NAMES = os.environ.get("CLOZELINE_WITHOUT", "")
SINGLE = [pytest.param(each.name, marks=pytest.mark.slow) for each in list_extensions()]
HIDDEN = [",".join(NAMES.split())] if NAMES else ["all", *SINGLE]


@pytest.mark.parametrize("hidden", HIDDEN)
def test_the_main_line_goes_from_texts_to_a_checkpoint(tmp_path, monkeypatch, hidden):
    monkeypatch.setenv("CLOZELINE_HIDE", hidden)
    shown = subprocess.run(
        [sys.executable, "-m", "clozeline", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = [*find_extensions()] if hidden == "all" else hidden.split(",")

    assert not [name for name in names if f"\n{name}: " in shown.stdout]

    guard = Guard(ROOT, tmp_path / "run")
    guard.run(*guard.shards("data"))
    files = json.loads(json.dumps(hash_files(guard.folder / "data")))

    assert list(differences(json.loads(EXPECTED.read_text()), files)) == []

    losses = guard.train("model", "data/corrupt/masked_lm/train/manifest.json", ranks=2)

    assert len(losses) == 6
    assert (guard.folder / "model/checkpoints").is_dir()
