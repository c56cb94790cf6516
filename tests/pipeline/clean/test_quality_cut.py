"""A share of the documents is kept by their ranks, whatever the units and tasks are."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.pipeline.clean.quality_cut import cut_rank
from clozeline.pipeline.clean.stage import CleanStage
from clozeline.pipeline.execution.report import write_run_report
from clozeline.pipeline.execution.stage_keys import stage_key
from clozeline.pipeline.execution.stage_order import check_recipe
from clozeline.tools.shards.verify_counts import main as verify_counts
from tests.pipeline.clean.cleaning import Cleaned, recipe_for, run_clean
from tests.pipeline.clean.filters.test_quality import write_model

WORDS = {f"grade{chr(97 + number)}": number / 4 for number in range(12)}


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(1, 1000))
def test_the_cut_of_the_histogram_is_that_of_sorting_to_one_rank(ranks: list[int], thousandths: int) -> None:
    keep = thousandths / 1000
    cut = cut_rank({str(rank): count for rank, count in Counter(ranks).items()}, keep)
    best = sorted(ranks, reverse=True)[: math.ceil(round(keep * len(ranks), 9))]
    assert cut == best[-1], "the last document that sorting keeps has the rank of the cut"


def write_texts(folder: Path, count: int = 120) -> str:
    """Several files of documents of twelve grades."""
    folder.mkdir()
    for number in range(count):
        word = f"grade{chr(97 + number * 7 % 12)}"
        with (folder / f"{number % 3}.jsonl").open("a") as file:
            file.write(json.dumps({"text": word}) + " " * 150 + "\n")
    return f"{folder}/*.jsonl"


def run(tmp_path: Path, name: str, keep: float, source: Any = None, model: Path | None = None, **keys: Any) -> Cleaned:
    model = model or write_model(tmp_path / "model.npz", WORDS)
    clean = {"language": None, "filters": [{"name": "quality", "model": str(model), "keep": keep}]}
    return run_clean(source or str(tmp_path / "texts" / "*.jsonl"), tmp_path / name, clean, **keys)


def test_the_best_share_stays_for_any_tasks_and_units(tmp_path: Path) -> None:
    write_texts(tmp_path / "texts")
    outputs = []
    for name, keys in (("one", {}), ("two", {"executor": {"tasks": 2, "workers": 1}, "plan": {"unit_bytes": 4096}})):
        done = run(tmp_path, name, 0.3, **keys)
        everything = sorted(done.documents, key=lambda document: document.uid)
        assert len(everything) == 40, "36 of 120 documents, and the others of the same score"
        assert {document.text.split()[0] for document in everything} == {"gradei", "gradej", "gradek", "gradel"}
        assert {document.extra["quality"] for document in everything} == {
            round(1 / (1 + math.exp(-number / 4)), 6) for number in range(8, 12)
        }
        assert all(set(document.extra) == {"quality"} for document in everything)
        assert done.nonzero("rejected") == {"low_quality": 80}
        assert len(done.rejects) == 80
        assert {reject.detail.split(" < ")[1] for reject in done.rejects} == {"0.8800"}
        assert sum(len(document.text) for document in everything) == done.counts["characters_out"]
        assert not (done.folder / "tmp").exists()
        assert len(done.records) == (6 if keys else 1)
        write_run_report(tmp_path / name, ["clean"])
        assert verify_counts([str(tmp_path / name)]) == 0
        outputs.append([document.as_row() for document in everything])
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("lost", ["documents/000000.arrow", "records/000000.json", "quality_cuts.json"])
def test_what_is_lost_after_the_run_is_made_again(tmp_path: Path, lost: str) -> None:
    """The scored documents are intermediates, removed at the end: they are made again for a lost output."""
    write_texts(tmp_path / "texts", 24)
    run(tmp_path, "out", 0.5)
    folder = tmp_path / "out" / "clean"
    first = {str(path): path.read_bytes() for path in folder.rglob("*.arrow")}
    (folder / lost).unlink()
    done = run(tmp_path, "out", 0.5)
    assert not done.summary.skipped
    assert {str(path): path.read_bytes() for path in folder.rglob("*.arrow")} == first
    assert (folder / "quality_cuts.json").exists()
    assert run(tmp_path, "out", 0.5).summary.skipped


def test_each_source_may_have_a_share_of_its_own(tmp_path: Path) -> None:
    pattern = write_texts(tmp_path / "texts")
    model = str(write_model(tmp_path / "model.npz", WORDS))
    quality = [{"name": "quality", "model": model, "keep": keep} for keep in (0.5, 1.0)]
    entries = [{"path": pattern.replace("*", str(number)), "source": str(number)} for number in range(3)]
    clean = {
        "language": None,
        "filters": [quality[0]],
        "sources": {"1": {"filters": []}, "2": {"filters": [quality[1]]}},
    }
    done = run_clean(entries, tmp_path / "out", clean)
    kept = Counter(document.source_group for document in done.documents)
    assert kept == {"0": 20, "1": 40, "2": 40}
    assert {document.source_group: set(document.extra) for document in done.documents} == {
        "0": {"quality"}, "1": set(), "2": {"quality"},
    }  # fmt: skip
    cuts = json.loads((done.folder / "quality_cuts.json").read_text())
    assert sorted((cut["documents"], cut["kept"]) for cut in cuts.values()) == [(40, 20), (40, 40)]


def test_another_model_cleans_again_and_a_copied_one_does_not(tmp_path: Path) -> None:
    write_texts(tmp_path / "texts", 24)
    model = write_model(tmp_path / "model.npz", WORDS)

    def key() -> str:
        clean = {"filters": [{"name": "quality", "model": str(model), "keep": 0.5}]}
        return stage_key(CleanStage(recipe_for(str(tmp_path / "texts"), tmp_path / "out", clean)), "")

    run(tmp_path, "out", 0.5, model=model)
    first = key()
    write_model(model, WORDS)
    assert key() == first
    write_model(model, {"gradea": 9.0})
    assert key() != first
    done = run(tmp_path, "out", 0.01, model=model)
    assert {document.text.split()[0] for document in done.documents} == {"gradea"}


def test_a_filter_after_a_share_and_a_missing_model_are_refused_before_the_work(tmp_path: Path) -> None:
    model = str(write_model(tmp_path / "model.npz", WORDS))
    pattern = write_texts(tmp_path / "texts", 3)
    filters: list[Any] = [{"name": "quality", "model": model, "keep": 0.5}, "gopher_quality"]
    with pytest.raises(ConfigurationError, match=r"clean.filters: `keep` of quality .* got gopher_quality after it"):
        check_recipe(recipe_for(pattern, tmp_path / "out", {"filters": filters}))
    with pytest.raises(ConfigurationError, match=r"none.npz: cannot be read \(No such file or directory\)"):
        check_recipe(
            recipe_for(pattern, tmp_path / "out", {"filters": [{**filters[0], "model": f"{tmp_path}/none.npz"}]})
        )
