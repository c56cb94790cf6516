"""Where the sets of a run come from, on its page, against the files of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.execution.report import write_run_report
from clozeline.pipeline.execution.report_origins import list_provenance
from clozeline.pipeline.execution.stage_report import StageFacts
from clozeline.pipeline.ingest.documents.files import read_documents
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.report.html_page import page
from tests.pages import HOSTILE, ParsedPage, checked
from tests.pipeline.miniature import text, write_recipe

RECIPE = """
corpus: origins
seed: 7
heldout: {fraction: 0.1}
clean: {language: null, filters: [{name: gopher_quality, words: [1, 100000], stop_words: 0}]}
dedup: {exact: {}, near: null}
train_tokenizer: {name: byte_bpe, size: 500}
encode: {}
balance: {alpha: 1}
group: {}
corrupt: [{name: causal_lm, max_length: 64}]
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("origins")
    source = folder / "crawl"
    source.mkdir()
    for number in range(2):
        lines = [json.dumps({"text": text(10 * number + each, 6)}) for each in range(10)]
        (source / f"<b>{number}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert main(["--config", str(write_recipe(folder, RECIPE)), f"input={source}", f"output={folder / 'out'}"]) == 0
    return folder / "out"


@pytest.fixture(scope="module")
def shown(output: Path) -> ParsedPage:
    return checked((output / "report.html").read_text(encoding="utf-8"))


def test_parents_lead_from_inputs_to_sets(output: Path, shown: ParsedPage) -> None:
    cells = shown.cells[shown.cells.index("made from") + 1 :]
    cells = cells[: cells.index("corrupt/causal_lm/train") + 3]
    rows = list(zip(cells[::3], cells[1::3], cells[2::3], strict=True))
    parents = {name: known for name, _, known in rows}
    files = "default/<b>0.jsonl, default/<b>1.jsonl"
    assert parents["clean"] == files
    assert parents["dedup"] == "clean"
    assert parents["train_tokenizer"] == "dedup"
    assert parents["encode"] == "dedup, train_tokenizer"
    assert parents["balance"] == "encode"
    (group,) = [name for name in parents if name.startswith("group/") and name.endswith("/train")]
    assert parents[group] == "encode, balance"
    assert parents["corrupt/causal_lm/train"] == group
    for name in ("encode", group, "corrupt/causal_lm/train"):
        checksum = json.loads((output / name / "manifest.json").read_text())["checksum"]
        assert any(each == name and checksum[:8] in holds for each, holds, _ in rows)


def test_fertility_is_that_of_the_texts(output: Path, shown: ParsedPage) -> None:
    documents = [each for path in sorted((output / "dedup/documents").glob("*")) for each in read_documents(path)]
    tokenizer = load_tokenizer(output / "train_tokenizer" / "tokenizer")
    tokens = sum(len(each.ids) for each in tokenizer.encode([document.text for document in documents]))
    words = sum(document.n_words for document in documents)
    characters = sum(len(document.text) for document in documents)
    at = shown.cells.index("tokens a word")
    row = shown.cells[at + 2 :][:4]
    assert row == ["und", f"{tokens:,}", f"{tokens / words:.2f}", f"{characters / tokens:.2f}"]


def test_units_versions_and_the_way_back_are_there(output: Path, shown: ParsedPage) -> None:
    assert "clozeline explain-batch --run RUN --step N" in shown.cells
    assert "filters/gopher_quality" in shown.cells
    assert "numpy" in shown.cells
    report = json.loads((output / "report.json").read_text())["stages"]
    (unit,) = report["clean"]["slowest"]
    assert (unit["pass_name"], unit["unit"], unit["documents"]) == ("main", 0, 20)
    assert unit["seconds"] > 0
    assert report["clean"]["deciders"]["algorithms"]["filters/gopher_quality"] > 0


def test_the_page_is_equal_when_drawn_again(output: Path) -> None:
    path = output / "report.html"
    before = path.read_bytes()
    path.unlink()
    stages = ["clean", "dedup", "train_tokenizer", "encode", "balance", "group", "corrupt"]
    assert write_run_report(output, stages).read_bytes() == before


def facts(tmp_path: Path, **counts: Any) -> StageFacts:
    return StageFacts("clean", tmp_path / "clean", counts, 1, 1, 1.0, {})


def test_many_inputs_are_grouped_by_source_and_hostile_names_stay_text(tmp_path: Path) -> None:
    (tmp_path / "clean" / "documents").mkdir(parents=True)
    files = [{"source": f"{each % 9}/{each}", "bytes": 10**6 * (each % 9 + 1)} for each in range(18)]
    units = [{"source": file["source"], "source_group": f"{HOSTILE}{file['source'][0]}"} for file in files]
    stages = [facts(tmp_path, documents_out=3)]
    parsed = checked(page("x", [list_provenance({"inputs": files, "units": units}, stages, {})]))
    assert parsed.cells.count("outside") == 7, "six sources, the largest first, and one row for the others"
    assert any(cell.startswith("input ") and cell.endswith("8") for cell in parsed.cells)
    assert "3 other sources" in parsed.cells
    assert "6 files · 12.0 MB" in parsed.cells, "two files each of 1, 2 and 3 MB"
