"""The commands of the README that continue a published model, run as they are written."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from pydoc_data.topics import topics

import pytest

from clozeline.tools.start.demo import SENTENCES, compare_guesses
from tests.small_bert import publish_small_bert

README = Path(__file__).parents[1] / "README.md"


def commands() -> list[list[str]]:
    """Return the words of each command of the section."""
    (section,) = re.findall(r"^## A published model$(.*?)^## ", README.read_text(encoding="utf-8"), re.M | re.S)
    (block,) = re.findall(r"```sh\n(.*?)```", section, re.S)
    return [shlex.split(line) for line in block.splitlines()]


@pytest.mark.slow
def test_a_published_model_goes_on_and_back(tmp_path: Path) -> None:
    """A model of transformers comes back to transformers with what it learned here: other logits than before."""
    publish_small_bert(tmp_path / "downloads" / "bert")
    (tmp_path / "texts").mkdir()
    for name, text in topics.items():
        (tmp_path / "texts" / f"{name.replace('/', '_')}.txt").write_text(text, encoding="utf-8")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=900)

    for words in commands():
        done = run(*words, *(["steps=8", "schedule.warmup=2"] if words[1] == "train" else []))
        assert done.returncode == 0, done.stderr
    models = tmp_path / "runs" / "bert", tmp_path / "exported"
    assert run("clozeline", "compare-logits", *map(str, models), "--theirs").returncode == 0
    assert compare_guesses(*models, SENTENCES) < 1e-4
    assert run("clozeline", "compare-logits", str(models[0]), "downloads/bert", "--theirs").returncode == 65
