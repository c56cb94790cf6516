"""Running the stage over documents given in memory, part by part, in a chosen order of units."""

import json

import pytest

from tests.pipeline.stage_in_memory import StageResult, run_in_memory


@pytest.fixture
def items(tmp_path):
    """`items(texts, name)`: a file of lines of JSON with these texts."""

    def write(texts, name="items.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def run_stage(tmp_path):
    """`run_stage(parts, config, reverse=False)`: the stage over lists of documents."""
    runs = iter(range(10_000))

    def run(parts, config, reverse=False):
        return StageResult(
            *run_in_memory(tmp_path / f"run{next(runs)}", "decontaminate", parts, config, reverse=reverse)
        )

    return run
