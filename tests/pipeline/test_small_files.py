"""Small files share units: the same documents and shards, and problems still named by file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clozeline.pipeline.execution.recipe_command import main
from tests.pipeline.clean.cleaning import run_clean
from tests.pipeline.miniature import text, write_corpus, write_recipe


def test_documents_of_a_shared_unit_are_those_of_single_units(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(9):
        lines = [json.dumps({"text": text(10 * number + row, 30)}) for row in range(number % 4)]
        (folder / f"{number}.jsonl").write_text("".join(f"{line}\n" for line in [*lines, "{broken"][number % 2 :]))
    (folder / "page.html").write_text(f"<html><body><p>{text(500)}</p></body></html>")
    shared = run_clean(str(folder), tmp_path / "shared")
    single = run_clean(str(folder), tmp_path / "single", plan={"unit_bytes": 4096})
    assert len(shared.records) == 1 < len(single.records)
    assert shared.documents == single.documents
    assert shared.rejects == single.rejects
    assert shared.counts == single.counts


def test_an_empty_and_a_broken_file_are_named(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text(json.dumps({"text": text(1)}) + "\n")
    (folder / "b.jsonl").write_text("")
    (folder / "c.jsonl").write_text("{broken\n[1]\n{broken\n")
    (folder / "d.warc.gz").write_bytes(b"not a gzip file at all")
    found = run_clean(
        [{"path": str(folder / "*.jsonl")}, {"path": str(folder / "d.warc.gz"), "reader": "warc"}], tmp_path / "out"
    )
    assert len(found.records) == 1
    named = found.counts["by_source"]
    assert named.keys() == {"default/b.jsonl", "default/c.jsonl", "default/d.warc.gz"}
    assert named["default/b.jsonl"] == {"empty_file": 1}
    assert sum(named["default/c.jsonl"].values()) == 3


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> list[dict[str, bytes]]:
    """The files that training reads, for units that files share and for units of 4 kB."""
    folder = tmp_path_factory.mktemp("runs")
    recipe, source = write_recipe(folder), write_corpus(folder / "crawl")
    found = []
    for name, size in (("large", 1 << 20), ("small", 4096)):
        output = folder / name
        assert main(["--config", str(recipe), f"input={source}", f"output={output}", f"plan.unit_bytes={size}"]) == 0
        stages = [output / stage for stage in ("encode", "group", "corrupt")]
        files = [path for stage in stages for path in sorted(stage.rglob("*")) if path.suffix in (".arrow", ".tar")]
        found.append({path.relative_to(output).as_posix(): path.read_bytes() for path in files})
    return found


@pytest.mark.slow
def test_shards_do_not_depend_on_the_size_of_units(shards):
    large, small = shards
    assert large.keys() == small.keys()
    assert [name for name in large if large[name] != small[name]] == []
    assert any(Path(name).suffix == ".tar" for name in large)
