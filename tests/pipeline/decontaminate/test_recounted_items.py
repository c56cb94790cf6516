"""Counts of `decontaminate` are computed in two ways: a change of either, or of the index, is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clozeline.pipeline.decontaminate import passes
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.kernels import ngram_index
from clozeline.pipeline.kernels.ngram_index import NgramIndex
from tests.pipeline.miniature import text, write_corpus, write_recipe
from tests.pipeline.run_counts import check_run
from tests.pipeline.unnoticed import unnoticed

RECIPE = """
corpus: miniature
seed: 7
plan: {unit_bytes: 8192, shard_bytes: 40000}
clean: {language: null, filters: []}
decontaminate: {against: ITEMS, max_document_frequency: 2}
"""


def decontaminated(folder: Path) -> Path:
    """The output of a run with long, short and frequent items in two suites, one of them of a task."""
    items = [" ".join(text(number, 6 + number % 20).split()[8:30]) for number in (4, 9, 23)]
    items += [" ".join(text(12, 18).split()[3:10]), text(5, 11), text(5000), "too short"]
    rows = "".join(json.dumps({"text": item}) + "\n" for item in items)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "items.jsonl").write_text(rows, encoding="utf-8")
    lines = [f"{' '.join(text(number, 20).split()[:20])}\t{number % 2}" for number in (14, 4000)]
    (folder / "dev.tsv").write_text("\n".join(["sentence\tlabel", *lines, "no label\t7"]) + "\n", encoding="utf-8")
    sets = f"[{folder}/items.jsonl, {{path: {folder}/dev.tsv, reader: {{name: glue, task: sst2}}}}]"
    recipe = write_recipe(folder, RECIPE.replace("ITEMS", sets))
    source = write_corpus(folder / "crawl", 30)
    extra = [json.dumps({"text": f"{text(5, 11)} {number}"}) for number in range(3)]
    with (folder / "crawl" / "part0.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n".join(extra) + "\n")
    assert run_pipeline(["--config", str(recipe), f"input={source}", f"output={folder / 'out'}"]) == 0
    return folder / "out"


def test_every_counter_is_compared(tmp_path: Path) -> None:
    run = decontaminated(tmp_path)
    counts: Any = json.loads((run / "decontaminate" / "report.json").read_text())["counts"]
    assert counts["entries"]["too_frequent"] > 0
    assert counts["entries"]["short"] > 0
    assert counts["suites"]["sst2/dev"] == {"items": 3, "unreadable": 0, "too_short": 1, "words": 40,
                                            "overlap_words": 20, "contaminated": 1, "documents": 1}  # fmt: skip
    assert check_run(run)
    # how many rows a reader rejects only the evaluation file tells
    assert [name for name in unnoticed(run, "decontaminate", lambda key: True)
            if not name.endswith("unreadable")] == []  # fmt: skip


def test_an_index_that_misses_one_run_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutation: one of the runs that documents hold is not found; every sum still adds up."""
    run = decontaminated(tmp_path)
    shutil.rmtree(run / "decontaminate")
    complete = ngram_index.build_index

    def miss(items: Any, ngram: int) -> NgramIndex:
        index = complete(items, ngram)
        index.hashes[len(index) // 2] += np.uint64(1)
        return index

    monkeypatch.setattr(passes, "build_index", miss)
    words = ["--config", str(tmp_path / "recipe.yaml"), f"input={tmp_path}/crawl/*.jsonl", f"output={run}"]
    assert run_pipeline(words) == 0
    with pytest.raises(AssertionError, match=r"decontaminate/report\.json: "):
        check_run(run)
