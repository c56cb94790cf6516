"""A hundred deaths by SIGKILL over all stages for documents, each with a restart: the bytes of one clean run."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from clozeline.pipeline.execution.recipe_command import main
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.killed_run import killed
from tests.pipeline.miniature import RECIPE, text, write_corpus, write_recipe

KILLS = 100
# all stages, with every kind of duplicates
_RECIPE = (
    RECIPE[: RECIPE.index("  - {name: span_corruption")]
    .replace("dedup: {}", "dedup: {near: {}, lines: {}, spans: {}}\ndecontaminate: {against: [ITEMS]}")
    .replace("group: {}", "balance: {}\ngroup: {}")
)
_STAGES = ("clean", "dedup", "decontaminate", "train_tokenizer", "encode", "balance", "group", "corrupt")


@pytest.fixture(scope="module")
def arguments(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("corpus")
    items = folder / "items.jsonl"
    items.write_text(json.dumps({"text": text(4, 10).split("\n")[0]}) + "\n")
    recipe = write_recipe(folder, _RECIPE.replace("ITEMS", str(items)))
    return ["--config", str(recipe), f"input={write_corpus(folder / 'crawl', 40)}"]


def _data(output: Path) -> dict[str, bytes]:
    return {f"{stage}/{name}": data for stage in _STAGES for name, data in tree(output / stage).items()}


@pytest.fixture(scope="module")
def reference(arguments, tmp_path_factory) -> tuple[dict[str, bytes], list[str]]:
    """Return the files of a clean run, and every path that it published, in order."""
    output, published = tmp_path_factory.mktemp("reference") / "out", []
    rename = Path.replace

    def note(self: Path, target: Path) -> Path:
        published.append(str(target).removeprefix(str(output)))
        return rename(self, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", note)
        assert main([*arguments, f"output={output}", "executor.workers=1"]) == 0
    return _data(output), list(dict.fromkeys(published))


def _points(published: list[str]) -> Iterator[tuple[str, str]]:
    """Yield `KILLS` points in the order of the run: before and after the rename of files spread over all stages."""
    # the executor's marks are renamed after the record of a unit, so that a restart does not make them again
    named = [path for path in published if path.split("/")[1] in _STAGES and "/tmp/finished/" not in path]
    chosen = [named[index * len(named) // (KILLS // 2)] for index in range(KILLS // 2)]
    for path in chosen:
        yield "before", path
        yield "after", path


@pytest.mark.slow
def test_a_hundred_kills_over_all_stages_cost_nothing(arguments, reference, tmp_path):
    files, published = reference
    points = list(_points(published))
    assert len(points) == KILLS
    assert {path.split("/")[1] for _, path in points} == set(_STAGES)
    assert any("/records/" in path for _, path in points)
    assert any(path.endswith(".arrow") for _, path in points)
    for when, name in points:  # one task each, because more would publish a unit before the named one
        killed(when, name, [*arguments, f"output={tmp_path / 'out'}", "executor.workers=1"], tmp_path)
    assert main([*arguments, f"output={tmp_path / 'out'}", "executor.tasks=3"]) == 0
    mine = _data(tmp_path / "out")
    assert sorted(mine) == sorted(files)
    assert [name for name in mine if mine[name] != files[name]] == []
