"""A corpus or a recipe that changes ends with the files and counts of a fresh run."""

import json

import pytest

from clozeline.pipeline.execution.recipe_command import main
from tests.pipeline.dedup.dedup_documents import edited, prose

RECIPE = """
corpus: grow
plan: {unit_bytes: 8192, shard_bytes: 8192}
clean: {language: null, filters: []}
"""


def run(folder, output, copies, texts, dedup, seed=0):
    """Run a recipe over one file a text, the first ones near copies and a copy of these; return
    what dedup published, and its counts."""
    inputs = folder / "in"
    inputs.mkdir(exist_ok=True)
    (folder / "r.yaml").write_text(RECIPE)
    near = [edited(prose(seed + n), 9) for n in range(copies)]
    found = near + near[:1] + [prose(seed + n) for n in range(texts)]
    for path in inputs.iterdir():
        path.unlink()
    for n, text in enumerate(found):
        (inputs / f"{n:03}-{seed}.jsonl").write_text(json.dumps({"text": text}) + "\n")
    words = ["--quiet", "--config", str(folder / "r.yaml"), f"input={inputs}/*.jsonl"]

    assert main([*words, f"output={folder / output}", f"dedup={json.dumps(dedup)}"]) == 0

    stage = folder / output / "dedup"
    files = {path.relative_to(stage): path.read_bytes() for path in stage.rglob("*/*.arrow")}
    return files, json.loads((stage / "report.json").read_text())["counts"]


LINES = {"lines": {"min_letters": 1}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((0, 14, {}), (0, 40, {})),  # 2 shards, then 8
        ((0, 14, {}), (0, 4, {})),  # 1 shard
        ((1, 3, {}, 18), (1, 10, {}, 18)),  # 1 shard, then 2
        ((0, 3, {}), (0, 3, LINES)),
        ((0, 3, LINES), (0, 3, {})),
    ],
)
def test_what_changes_ends_with_the_files_and_counts_of_a_fresh_run(tmp_path, before, after):
    run(tmp_path, "out", *before)

    assert run(tmp_path, "out", *after) == run(tmp_path, "fresh", *after)
