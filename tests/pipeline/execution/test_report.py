"""The page of a run against counts made from the input and from the published files."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from clozeline.pipeline.execution.recipe_command import main, run_stage
from clozeline.pipeline.execution.report import write_run_report
from clozeline.pipeline.execution.report_samples import Parts
from clozeline.pipeline.ingest.documents.files import read_documents, read_rejects
from tests.pages import ParsedPage, checked
from tests.pipeline.miniature import text, write_recipe

RECIPE = """
corpus: report
seed: 7
heldout: {fraction: 0.1}
clean:
  language: null
  filters: [{name: gopher_quality, words: [10, 100000]}]
  keep_text: 1
dedup: {exact: {}, near: null}
train_tokenizer: {name: byte_bpe, size: 500}
encode: {}
group: {}
corrupt:
  - {name: causal_lm, max_length: 64}
  - {name: masked_lm, max_length: 64}
"""
STAGES = ["clean", "dedup", "train_tokenizer", "encode", "group", "corrupt"]
MARKUP = '<img src=x onerror=alert(1)> & "quoted" '


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A small run and its arguments: 30 texts, one twice and one three times, one too short, one broken line."""
    folder = tmp_path_factory.mktemp("report")
    texts = [MARKUP + text(number, 6 + number % 5) for number in range(30)]
    lines = [json.dumps({"text": one}) for one in [*texts, texts[3], texts[5], texts[5], MARKUP]]
    source = folder / "crawl" / "<b>part.jsonl"
    source.parent.mkdir()
    source.write_text("\n".join([*lines, "{broken"]) + "\n", encoding="utf-8")
    arguments = ["--config", str(write_recipe(folder, RECIPE)), f"input={source.parent}", f"output={folder / 'out'}"]
    assert main(arguments) == 0
    return folder / "out", arguments


@pytest.fixture(scope="module")
def page(run: tuple[Path, list[str]]) -> ParsedPage:
    return checked((run[0] / "report.html").read_text(encoding="utf-8"))


def picture(page: ParsedPage, title: str) -> str:
    """The figures of a picture in words."""
    (found,) = [one.removeprefix(f"{title}: ") for one in page.pictures if one.startswith(f"{title}: ")]
    return found


def rows(output: Path, pattern: str) -> int:
    """Rows of shards, as pyarrow counts them."""
    return sum(pa.ipc.open_file(path).read_all().num_rows for path in sorted(output.glob(pattern)))


def test_the_funnel_is_what_the_files_hold(run, page):
    output, _ = run
    documents = {stage: len(list(read_documents(output / stage / "documents/000000.arrow"))) for stage in STAGES[:2]}
    assert documents == {"clean": 33, "dedup": 30}
    tokens = sum(
        len(ids)
        for path in sorted((output / "encode").glob("shard-*.arrow"))
        for ids in pa.ipc.open_file(path).read_all().column("token_ids").to_pylist()
    )
    examples = rows(output, "corrupt/*/*/shard-*.arrow")
    assert picture(page, "From documents to examples") == (
        f"documents 34; kept 33 · 97.1 %; unique 30 · 90.9 %; "
        f"tokens {tokens:,} · {tokens / 30:,.0f} a document; examples {examples:,} · of 2 objectives, all variants"
    )


def test_languages_have_documents_of_each_stage_characters_and_tokens(run, page):
    output, _ = run
    last = list(read_documents(output / "dedup/documents/000000.arrow"))
    tokens = json.loads((output / "encode/report.json").read_text())["counts"]["tokens"]
    at = page.cells.index("kept")
    assert page.cells[at - 1 : at + 11] == [
        *("language", "kept", "unique", "left", "characters", "tokens"),
        *("und", "33", "30", "90.9 %", f"{sum(len(one.text) for one in last):,}", f"{tokens:,}"),
    ]
    assert "site" not in page.cells, "lines of a file have no address"


def test_reasons_have_their_shares(run, page):
    output, _ = run
    reasons = Counter(one.reason for one in read_rejects(output / "clean/rejects/000000.arrow"))
    assert reasons == {"gopher_short_doc": 1}
    assert picture(page, "clean · rejected, of 34 documents") == "gopher_short_doc 1 · 2.9 %"
    assert picture(page, "clean · malformed, of 35 records") == "bad_json 1 · 2.9 %"
    assert picture(page, "dedup · rejected, of 33 documents") == "exact_duplicate 3 · 9.1 %"


def test_lengths_and_clusters_are_counted(run, page):
    output, _ = run
    lengths = [len(one.text) for one in read_documents(output / "dedup/documents/000000.arrow")]
    highest, _ = max(Counter(length.bit_length() for length in lengths).items(), key=lambda item: (item[1], -item[0]))
    shown = picture(page, "Documents by length")
    assert shown.startswith("30 from ")
    assert shown.endswith(f"most of them {1 << highest - 1:,} to {(1 << highest) - 1:,}")
    assert picture(page, "Clusters of exact duplicates") == "2 from 2 to 3, most of them 2"


def test_texts_are_shown_with_their_origin(run, page):
    output, _ = run
    kept = [one.text for one in read_documents(output / "dedup/documents/000000.arrow")]
    assert (
        sum(any(one.startswith(shown.removesuffix(" …")) for one in kept) for shown in page.texts if MARKUP in shown)
        >= 3
    )
    assert page.count("blockquote") == 3 + 1 + 3  # kept, too short, copies
    assert any(shown.startswith("default/<b>part.jsonl at ") for shown in page.texts)
    assert "clean · gopher_short_doc · 1 document" in page.texts


@pytest.mark.slow
def test_seconds_are_all_that_differs_between_two_runs(run, tmp_path):
    output, arguments = run
    assert main([*arguments, f"output={tmp_path / 'out'}", "executor.tasks=2"]) == 0
    pages = [(folder / "report.html").read_text() for folder in (output, tmp_path / "out")]
    mine, theirs = (_without_seconds(one).replace(str(output), str(tmp_path / "out")) for one in pages)
    assert mine.replace("tasks: 1", "tasks: 2") == theirs


def _without_seconds(page: str) -> str:
    page = re.sub(r"<figure><figcaption><b>Time of each stage.*?</figure>", "", page, flags=re.DOTALL)
    page = re.sub(r"<h3>Slowest units.*?</table>", "", page, flags=re.DOTALL)
    return re.sub(r"[\d,.]+ s</dd>|<td class=n>[\d,]+\.\d(?: s)?</td>", "", page)


def test_stages_alone_read_their_own_documents_once(run, tmp_path, monkeypatch):
    """Each stage has its page; that of the run is drawn by the run, and removed when a stage's counts change."""
    arguments, read = [*run[1], f"output={tmp_path}"], list[str]()
    files_of = Parts.of
    monkeypatch.setattr(
        Parts, "of", lambda folder: read.append(folder.relative_to(tmp_path).parts[0]) or files_of(folder)
    )
    for stage in STAGES:
        read.clear()
        assert run_stage(stage, arguments) == 0
        assert set(read) == ({stage} if stage in ("clean", "dedup") else set()), stage
    assert not (tmp_path / "report.html").exists()
    assert list(json.loads((tmp_path / "report.json").read_text())["stages"]) == sorted(STAGES)
    alone = checked((tmp_path / "dedup" / "report.html").read_text(encoding="utf-8"))
    assert picture(alone, "From documents to examples").startswith("documents 34; kept 33 · 97.1 %; unique 30")
    assert any("dedup · exact_duplicate · 3 documents" in shown for shown in alone.texts)
    assert not any("clean · gopher" in shown and "· 1 document" in shown for shown in alone.texts)
    read.clear()
    assert main(arguments) == 0
    assert {"clean", "dedup"} <= set(read)
    pages = [(folder / "report.html").read_text() for folder in (run[0], tmp_path)]
    headings, again = (re.findall(r"<(?:h2|h3|summary)>.*?</", page) for page in pages)
    assert headings == again
    assert len(headings) > 15
    assert run_stage("clean", [*arguments, "clean.keep_text=0"]) == 0
    assert not (tmp_path / "report.html").exists()
    assert main([*arguments, "clean.keep_text=0"]) == 0
    assert not (tmp_path / "dedup" / "report.html").exists(), "its texts are those of the documents before"


def test_a_finished_run_is_not_drawn_again_and_a_changed_stage_is(run, monkeypatch):
    output, arguments = run
    drawn: list[Path] = []
    monkeypatch.setattr("clozeline.pipeline.execution.report.publish_text", lambda path, text: drawn.append(path))
    assert main(arguments) == 0
    assert run_stage("clean", arguments) == 0
    assert drawn == []
    newer = (output / "report.html").stat().st_mtime_ns + 1
    os.utime(output / "encode" / "report.json", ns=(newer, newer))
    assert main(arguments) == 0
    assert drawn == [output / "report.html"]


def test_what_no_stage_counted_is_left_out(run, tmp_path):
    output, _ = run
    for name in ("clean", "report.json"):
        (tmp_path / name).symlink_to(output / name)
    page = checked(write_run_report(tmp_path, ["clean", "dedup"]).read_text())
    assert picture(page, "From documents to examples") == "documents 34; kept 33 · 97.1 %"
    assert not any("duplicates" in one or "dedup" in one for one in page.pictures)
    assert "Shard sets" not in page.texts


def test_a_text_that_was_not_kept_is_explained(run, page, tmp_path):
    _, arguments = run
    assert not any("clean.keep_text" in shown for shown in page.texts if "none was kept" in shown)
    assert run_stage("clean", [*arguments, f"output={tmp_path}", "clean.keep_text=0"]) == 0
    other = checked((tmp_path / "clean" / "report.html").read_text(encoding="utf-8"))
    assert any("clean.keep_text" in shown for shown in other.texts if "none was kept" in shown)
    assert any(shown.startswith("default/<b>part.jsonl at ") for shown in other.texts)


@pytest.mark.parametrize("damage", ["cut", "flip", "newer", "gone"])
@pytest.mark.parametrize("name", ["clean", ""])
def test_a_damaged_report_is_named_or_written_again(run, tmp_path, capsys, name, damage):
    """A later stage names that of an earlier one; the stage itself, and the run, write theirs again."""
    arguments = [*run[1][:-1], f"output={shutil.copytree(run[0], tmp_path / 'out')}"]
    path = tmp_path / "out" / name / "report.json"
    whole = path.read_text()
    if damage == "cut":
        path.write_text(whole[:-9])
    elif damage == "gone":
        path.unlink()
    else:
        path.write_text(whole.replace(*(("7", "8", 1) if damage == "flip" else ('"format": 1', '"format": 2'))))
    os.utime(tmp_path / "out" / "dedup" / "report.json")
    code = run_stage("dedup", arguments)
    if name and damage != "gone":
        assert code == 65
        assert f"{path}: " in (said := capsys.readouterr().err)
        assert "run `clozeline clean` again" in said
    assert main(arguments) == 0
    part = "counts" if name else "stages"
    assert json.loads(path.read_text())[part] == json.loads(whole)[part]
