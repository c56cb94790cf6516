"""The stage in a run: any number of tasks, resumed after a kill, refused files, and what later stages see of it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from clozeline.files import file_hash
from clozeline.pipeline.decontaminate.passes import Apply
from clozeline.pipeline.execution.recipe_command import main, run_stage
from clozeline.pipeline.execution.report import read_report
from clozeline.pipeline.ingest.documents.files import read_documents
from clozeline.pipeline.kernels import ngram_index
from clozeline.pipeline.shards import open_shards
from tests.pages import checked
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.killed_run import killed
from tests.pipeline.miniature import text, write_corpus, write_recipe

RECIPE = """
corpus: miniature
seed: 7
plan: {unit_bytes: 8192, shard_bytes: 40000}
clean: {language: null, filters: []}
decontaminate: {against: [ITEMS]}
train_tokenizer: {name: byte_bpe, size: 420}
encode: {}
"""
LEAKED = [4, 9, 23]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Arguments of a run over documents of which three hold items."""
    folder = tmp_path_factory.mktemp("corpus")
    items = [" ".join(text(number, 6 + number % 20).split()[8:30]) for number in LEAKED]
    rows = [{"id": f"q{number}", "text": item} for number, item in enumerate([*items, text(5000), "no"])]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    recipe = write_recipe(folder, RECIPE.replace("ITEMS", str(folder / "items.jsonl")))
    return ["--config", str(recipe), f"input={write_corpus(folder / 'crawl', 30)}"]


@pytest.fixture(scope="module")
def finished(start: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("finished") / "out"
    assert main([*start, f"output={output}"]) == 0
    return output


def kept(output: Path) -> list[str | None]:
    paths = sorted((output / "decontaminate" / "documents").iterdir())
    return [document.url for path in paths for document in read_documents(path)]


def test_leaked_documents_are_gone_and_the_rest_is_there(finished: Path) -> None:
    urls = kept(finished)
    assert not {f"http://x.example/{number}" for number in LEAKED} & set(urls)
    counts = read_report(finished / "decontaminate" / "report.json", "")["counts"]
    assert counts["rejected"]["contaminated"] == 3
    assert counts["documents_in"] == len(urls) + 3
    assert counts["suites"]["items"]["contaminated"] == 3
    assert not (finished / "decontaminate" / "tmp").exists()


@pytest.mark.parametrize("tasks", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_tasks_change_no_byte(finished: Path, start: list[str], tmp_path: Path, tasks: int) -> None:
    shutil.copytree(finished / "clean", tmp_path / "out" / "clean")
    words = [*start, f"output={tmp_path / 'out'}", f"executor.tasks={tasks}", "executor.workers=1"]
    assert run_stage("decontaminate", words) == 0
    assert tree(tmp_path / "out" / "decontaminate") == tree(finished / "decontaminate")


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bytes(finished: Path, start: list[str], tmp_path: Path) -> None:
    shutil.copytree(finished / "clean", tmp_path / "out" / "clean")
    words = [*start, f"output={tmp_path / 'out'}"]
    stage = "decontaminate"
    for when, name in (
        ("before", f"{stage}/index.arrow"), ("before", f"{stage}/records/index-000000.json"),
        ("after", f"{stage}/tmp/matches/000001.npy"), ("after", f"{stage}/records/matches-000001.json"),
        ("before", f"{stage}/overlap.json"), ("after", f"{stage}/records/overlap-000000.json"),
        ("before", f"{stage}/documents/000002.arrow"), ("after", f"{stage}/records/000001.json"),
    ):  # fmt: skip
        killed(when, name, ["decontaminate", *words, "executor.tasks=2", "executor.workers=1"], tmp_path)
    assert run_stage(stage, words) == 0
    assert tree(tmp_path / "out" / stage) == tree(finished / stage)


def test_the_index_is_a_parent_of_the_token_set(finished: Path) -> None:
    parents = open_shards(finished / "encode").manifest.parents
    found = {(parent.name, parent.role): parent.digest for parent in parents}
    assert found["decontaminate", "evaluation index"] == file_hash(finished / "decontaminate" / "index.arrow")


def test_the_page_shows_each_suite(finished: Path) -> None:
    page = checked((finished / "report.html").read_text(encoding="utf-8"))
    at = page.cells.index("evaluation suite")
    shown = dict(zip(page.cells[at : at + 8], page.cells[at + 8 : at + 16], strict=True))
    words = 3 * 22
    assert shown == {
        "evaluation suite": "items", "items": "5", "unreadable": "0", "contaminated": "3", "too_short": "1",
        "documents": "3", "words": f"{words + len(text(5000).split())}", "overlap_words": f"{words}",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected evaluation items, got none (no rows): correct the file"),
        ('{"question": "who"}\n', "got the fields question in line 1"),
        ('{"text": "x"}\n{"text": 1}\n', "got the fields text in line 2"),
    ],
)
def test_evaluation_files_are_refused_with_a_way_out(
    start: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    (tmp_path / "a.jsonl").write_text(content, encoding="utf-8")
    words = [*start, f"output={tmp_path / 'out'}", f"decontaminate.against={tmp_path / 'a.jsonl'}"]
    assert main(words) == 64
    said = capsys.readouterr().err
    assert message in said
    assert str(tmp_path / "a.jsonl") in said
    assert "Traceback" not in said


def test_an_index_that_misses_a_run_gives_other_bytes(
    finished: Path, start: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mutation: the tests of this folder that count matches would all fail for it."""
    shutil.copytree(finished / "clean", tmp_path / "clean")
    complete = ngram_index.Matcher.find
    monkeypatch.setattr(ngram_index.Matcher, "find", lambda self, text: complete(self, text)[1:])
    assert run_stage("decontaminate", [*start, f"output={tmp_path}"]) == 0
    counts = read_report(tmp_path / "decontaminate" / "report.json", "")["counts"]
    assert counts["matches"] != read_report(finished / "decontaminate" / "report.json", "")["counts"]["matches"]


def test_a_document_that_is_not_looked_up_is_missed(
    finished: Path, start: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    shutil.copytree(finished / "clean", tmp_path / "clean")
    run = Apply.run
    monkeypatch.setattr(
        Apply, "run", lambda self, unit, output: {**run(self, unit, output), "matches": {"taken": 1, "ignored": 0}}
    )
    assert run_stage("decontaminate", [*start, f"output={tmp_path}"]) == 65
    assert "matches found" in capsys.readouterr().err


def test_rows_that_a_reader_rejects_are_looked_for_and_rows_without_a_text_are_told(
    finished: Path, start: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: Any
) -> None:
    shutil.copytree(finished / "clean", tmp_path / "clean")
    sets = f"decontaminate.against=[{{path: {tmp_path}/dev.tsv, reader: {{name: glue, task: sst2}}}}]"
    leaked = " ".join(text(4, 10).split()[8:30])
    rows = f"a film of no kind at all\t1\nanother one\t0\n{leaked}\t7\n".encode()
    (tmp_path / "dev.tsv").write_bytes(b"sentence\tlabel\n" + rows + b"\xff\t1\n\n")
    assert run_stage("decontaminate", [*start, f"output={tmp_path}", sets]) == 0
    counts = read_report(tmp_path / "decontaminate" / "report.json", "")["counts"]
    (suite,) = counts["suites"].values()
    assert {name: suite[name] for name in ("items", "unreadable", "contaminated")} == {
        "items": 3, "unreadable": 2, "contaminated": 1,
    }  # fmt: skip
    assert counts["rejected"] == {"contaminated": 1}
    assert "dev.tsv: 1 row rejected as bad_utf8, 1 row rejected as blank_line" in caplog.text
    assert re.search(r"dropped \(evaluation rows\): 2 ", capsys.readouterr().out)
    (tmp_path / "dev.tsv").write_bytes(b"sentence\tlabel\n\xff\t7\n")
    assert run_stage("decontaminate", [*start, f"output={tmp_path}", sets]) == 64
    assert "dev.tsv: expected evaluation items, got none (1 row rejected as bad_utf8)" in capsys.readouterr().err
