"""Workflows run code of others that no tag can change, and targets that exist."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_actions_are_named_by_commit_and_targets_exist(file):
    workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    for job in workflow["jobs"].values():
        used = [step["uses"] for step in job["steps"] if "uses" in step]
        assert [name for name in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", name)] == []

        choices = job.get("strategy", {}).get("matrix", {}).get("target", [])
        started = [step["run"] for step in job["steps"] if "run" in step]
        named = [run.removeprefix("make ") for run in started if re.fullmatch("make [a-z-]+", run)]
        for target in [*choices, *named]:
            assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
