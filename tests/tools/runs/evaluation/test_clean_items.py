"""Scores of the clean items alone, next to those of all items."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clozeline.files import file_hash
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.sealed_json import seal
from clozeline.tools.runs.evaluate import main
from tests.distributed import RankPool
from tests.tools.runs.evaluation.task_runs import question_run, tuned_run
from tests.tools.runs.inference.test_trained_model import write_run


def report(path: Path, files: dict[Path, dict[str, list[int]]]) -> Path:
    """A report of `decontaminate` on these files."""
    content = [
        {"suite": "s", "name": file.name, "reader": None, "xxh3_128": file_hash(file),
         "rows": {"clean": [], "contaminated": [], "too_short": [], **rows}}
        for file, rows in files.items()
    ]  # fmt: skip
    path.write_text(json.dumps(seal({"format": 1, "ngram": 13, "match_version": 1, "files": content})))
    return path


def scores_of(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def tuned(one_rank: RankPool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tuned_run(one_rank, tmp_path_factory.mktemp("tuned"))


def test_the_clean_rows_of_a_split_are_scored_apart(
    tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All rows are those of the split; of each row the same prediction counts in both scores."""
    file = tuned.parent / "files" / "dev.tsv"
    whole = scores_of(capsys, str(tuned))
    parts = []
    for kinds in ({"clean": range(1, 9), "contaminated": range(9, 20), "too_short": [20, 21]},
                  {"clean": range(9, 22), "contaminated": range(1, 9)}):  # fmt: skip
        path = report(tmp_path / "clean.json", {file: {kind: list(rows) for kind, rows in kinds.items()}})
        scores = scores_of(capsys, str(tuned), f"clean={path}")
        parts.append(scores.pop("clean"))
        assert scores == whole
    assert parts[0]["items"] == {"clean": 8, "contaminated": 11, "too_short": 2}
    counts = [part["scores"]["n"] for part in parts]
    assert counts == [8, 13]
    right = [part["scores"]["n"] * part["scores"]["metrics"]["accuracy"] for part in parts]
    assert sum(right) == pytest.approx(21 * whole["metrics"]["accuracy"])
    assert main([str(tuned), f"clean={path}"]) == 0
    said = capsys.readouterr().out
    assert "\nclean items: 13 of 21 (8 contaminated, 0 too short to be found)\nsst2 dev: 13 texts" in said


def test_without_a_clean_item_there_is_no_second_score(
    tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = report(tmp_path / "clean.json", {tuned.parent / "files" / "dev.tsv": {"contaminated": list(range(1, 22))}})
    assert main([str(tuned), f"clean={path}"]) == 0
    assert capsys.readouterr().out.endswith("clean items: 0 of 21 (21 contaminated, 0 too short to be found)\n")


def test_the_report_of_the_stage_fits_the_sets_of_its_task(
    tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A crawl that holds every other sentence of the split; those of fewer than five words cannot be found."""
    file, output = tuned.parent / "files" / "dev.tsv", tmp_path / "out"
    lines = file.read_text().splitlines()[1:]
    sentences = [" ".join(line.split("\t")[0].replace(".", "").split()) for line in lines]
    leaked = sentences[::2]
    (tmp_path / "crawl").mkdir()
    (tmp_path / "crawl" / "a.txt").write_text("\n\n".join(f"They said: {text}, and left." for text in leaked))
    (tmp_path / "crawl" / "b.txt").write_text("The ferry left the harbor before the fog came in.")
    plain = {
        "corpus": "c", "input": str(tmp_path / "crawl"), "output": str(output),
        "clean": {"language": None, "filters": []},
        "decontaminate": {"against": [{"path": str(file), "reader": {"name": "glue", "task": "sst2"}}],
                          "max_document_frequency": 1000},
    }  # fmt: skip
    (tmp_path / "recipe.yaml").write_text(json.dumps(plain))
    assert run_pipeline(["--config", str(tmp_path / "recipe.yaml")]) == 0
    capsys.readouterr()
    found = scores_of(capsys, str(tuned), f"clean={output / 'decontaminate' / 'clean_items.json'}")["clean"]
    long = [text for text in sentences if len(text.split()) >= 5]
    dirty = [text for text in long if any(text in f"They said {other} and left" for other in leaked)]
    assert found["items"] == {
        "clean": len(long) - len(dirty), "contaminated": len(dirty), "too_short": 21 - len(long)
    }  # fmt: skip
    assert found["scores"]["n"] == len(long) - len(dirty) > 0


@pytest.mark.slow
def test_questions_keep_all_their_windows(
    one_rank: RankPool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = question_run(one_rank, tmp_path)
    file = next((tmp_path / "files").glob("dev*"))
    path = report(tmp_path / "clean.json", {file: {"clean": list(range(10)), "contaminated": list(range(10, 21))}})
    capsys.readouterr()
    assert scores_of(capsys, str(run), f"clean={path}")["clean"]["scores"]["n"] == 10


def test_the_clean_lines_of_a_suite_are_scored_apart(
    shard_sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, pairs, passages = tmp_path / "run", tmp_path / "pairs.jsonl", tmp_path / "passages.txt"
    run.mkdir()
    write_run(run, shard_sets, [3], 1, "causal_lm", model__family="decoder", model__heads={"lm": 1.0})
    rows = [("the page of the book .", "page the book of the ."), ("a page", "a a"), ("a book", "book a")]
    pairs.write_text("".join(json.dumps({"good": good, "bad": bad}) + "\n" for good, bad in rows))
    passages.write_text("the page of the book\n\nthe book of the page\n")
    path = report(tmp_path / "clean.json", {
        pairs: {"clean": [0], "contaminated": [2], "too_short": [1]}, passages: {"clean": [2], "contaminated": [0]},
    })  # fmt: skip
    for suite, file, items in (("pairs", pairs, rows), ("lambada", passages, [1, 2])):
        words = [str(run), f"suite={suite}", f"input={file}"]
        whole = scores_of(capsys, *words)
        scores = scores_of(capsys, *words, f"clean={path}")
        part = scores.pop("clean")
        assert scores == whole
        assert (whole["n"], part["scores"]["n"]) == (len(items), 1)
    only = tmp_path / "only.jsonl"
    only.write_text(pairs.read_text().splitlines()[0] + "\n")
    scores = scores_of(capsys, str(run), "suite=pairs", f"input={pairs}", f"clean={path}")
    alone = scores_of(capsys, str(run), "suite=pairs", f"input={only}")
    assert scores["clean"]["scores"]["accuracy"] == alone["accuracy"]


def test_a_report_on_other_files_is_refused(tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.txt").write_text("one\n")
    path = report(tmp_path / "clean.json", {tmp_path / "other.txt": {"clean": [0]}})
    assert main([str(tuned), f"clean={path}"]) == 64
    said = capsys.readouterr().err
    assert "dev.tsv" in said
    assert "got one of s: other.txt: add the same file to decontaminate.against" in said
    path = report(tmp_path / "clean.json", {tuned.parent / "files" / "dev.tsv": {"clean": [1, 2]}})
    assert main([str(tuned), f"clean={path}"]) == 65
    assert "19 rows" in capsys.readouterr().err
    assert main([str(tuned), f"clean={path}", "perplexity=x"]) == 64
