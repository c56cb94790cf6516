"""The main line without tasks: what it says to who needs them."""

import os
import subprocess
import sys

import pytest

from clozeline.extension_list import HIDE


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pipeline", "--config", "recipe:tasks/sst2"], "tasks: is a key of the extension tasks"),
        (["tasks"], "no command 'tasks'; it is of the extension tasks"),
    ],
)
def test_a_hidden_stage_is_told_from_an_unknown_one(tmp_path, words, said):
    done = subprocess.run(
        [sys.executable, "-m", "clozeline", *words, "input=a", "output=b"],
        env=os.environ | {HIDE: "tasks"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert said in done.stderr
