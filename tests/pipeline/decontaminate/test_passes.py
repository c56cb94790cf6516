"""The stage in a run: any number of tasks, resumed after a kill, refused files, and what later stages see of it."""

import json
import re
import shutil

import pytest

from clozeline.files import file_hash
from clozeline.pipeline.execution.recipe_command import main, run_stage
from clozeline.pipeline.execution.report import read_report
from clozeline.pipeline.ingest.documents.files import read_documents
from clozeline.pipeline.shards import open_shards
from tests.pages import checked
from tests.pipeline.miniature import text, write_corpus, write_recipe
from tests.pipeline.run_counts import check_run

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
def start(tmp_path_factory):
    """Arguments of a run over documents of which three hold items."""
    folder = tmp_path_factory.mktemp("corpus")
    items = [" ".join(text(number, 6 + number % 20).split()[8:30]) for number in LEAKED]
    rows = [{"id": f"q{number}", "text": item} for number, item in enumerate([*items, text(5000), "no"])]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    recipe = write_recipe(folder, RECIPE.replace("ITEMS", str(folder / "items.jsonl")))
    return ["--config", str(recipe), f"input={write_corpus(folder / 'crawl', 30)}"]


@pytest.fixture(scope="module")
def finished(start, tmp_path_factory):
    output = tmp_path_factory.mktemp("finished") / "out"
    assert main([*start, f"output={output}"]) == 0
    return output


def test_leaked_documents_are_gone_and_the_rest_is_there(finished):
    paths = sorted((finished / "decontaminate" / "documents").iterdir())
    urls = [document.url for path in paths for document in read_documents(path)]
    assert not {f"http://x.example/{number}" for number in LEAKED} & set(urls)
    counts = read_report(finished / "decontaminate" / "report.json", "")["counts"]
    assert counts["rejected"]["contaminated"] == counts["suites"]["items"]["contaminated"] == 3
    assert counts["documents_in"] == len(urls) + 3
    assert check_run(finished)
    parents = open_shards(finished / "encode").manifest.parents
    found = {(parent.name, parent.role): parent.digest for parent in parents}
    assert found["decontaminate", "evaluation index"] == file_hash(finished / "decontaminate" / "index.arrow")


def test_the_page_shows_each_suite(finished):
    page = checked((finished / "report.html").read_text(encoding="utf-8"))
    at = page.cells.index("evaluation suite")
    shown = dict(zip(page.cells[at : at + 8], page.cells[at + 8 : at + 16], strict=True))
    words = 3 * 22
    assert shown == {
        "evaluation suite": "items", "items": "5", "unreadable": "0", "contaminated": "3", "too_short": "1",
        "documents": "3", "words": f"{words + len(text(5000).split())}", "overlap_words": f"{words}",
    }  # fmt: skip


def test_rows_that_a_reader_rejects_are_looked_for_and_rows_without_a_text_are_told(
    finished, start, tmp_path, caplog, capsys
):
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
