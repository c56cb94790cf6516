"""The page of a run against counts made from the input and from the published files."""

import json
import os
import platform
import re
import shutil
from importlib.metadata import version

import pyarrow as pa
import pytest

from clozeline.files import publish_json
from clozeline.pipeline.clean.extractors.resiliparse import ResiliparseExtractor
from clozeline.pipeline.clean.filters.url import Url
from clozeline.pipeline.clean.stage import CleanStage
from clozeline.pipeline.execution.arguments import Describer
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.recipe_command import main, run_stage
from clozeline.pipeline.execution.report import read_report, write_stage_report
from clozeline.pipeline.execution.stages import StageSummary
from clozeline.pipeline.execution.unit_record import UnitRecord, options_path
from clozeline.pipeline.ingest.documents.files import read_documents
from clozeline.pipeline.shards import open_shards
from tests.pages import checked
from tests.pipeline.clean.cleaning import recipe_for
from tests.pipeline.miniature import only_part, text, write_recipe

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
def run(tmp_path_factory):
    """A small run and its arguments: 30 texts, one twice and one three times, one too short, one
    broken line."""
    folder = tmp_path_factory.mktemp("report")
    texts = [MARKUP + text(number, 6 + number % 5) for number in range(30)]
    lines = [
        json.dumps({"text": one})
        for one in [
            *texts,
            texts[0],
            texts[0],
            texts[5],
            MARKUP,
        ]
    ]
    source = folder / "crawl" / "<b>part.jsonl"
    source.parent.mkdir()
    source.write_text("\n".join([*lines, "{broken"]) + "\n", encoding="utf-8")
    arguments = [
        "--config",
        str(write_recipe(folder, RECIPE)),
        f"input={source.parent}",
        f"output={folder / 'out'}",
    ]

    assert main(arguments) == 0

    return folder / "out", arguments


@pytest.fixture(scope="module")
def page(run):
    return checked((run[0] / "report.html").read_text(encoding="utf-8"))


def row_of(page, first, cells):
    """The cells of the first row of a table that begins with a text."""
    at = page.cells.index(first)
    return page.cells[at : at + cells]


def bars_of(page, title):
    """The names and figures of the bars under a title."""
    at = page.texts.index(title) + 1
    return page.texts[at : at + 2]


def rows(output, pattern):
    return sum(pa.ipc.open_file(path).read_all().num_rows for path in sorted(output.glob(pattern)))


def test_amounts_are_what_the_files_hold(run, page):
    output, _ = run
    documents = {
        stage: len(list(read_documents(only_part(output / stage)))) for stage in STAGES[:2]
    }

    assert documents == {"clean": 33, "dedup": 30}

    examples = rows(output, "corrupt/*/*/shard-*.arrow")
    sizes = [len(document.text) for document in read_documents(only_part(output / "dedup"))]
    lead = next(text for text in page.texts if " characters are left " in text)

    assert lead.startswith(f"35 records, 34 documents became {examples:,} examples")
    assert f"{sum(sizes):,} of " in lead
    assert "dedup · exact_duplicate removed most" in lead
    assert row_of(page, "clean", 4) == [
        "clean",
        "35 records, 34 documents",
        "33 documents",
        "0.3 %",
    ]
    assert row_of(page, "dedup", 3) == ["dedup", "33 documents", "30 documents"]
    assert row_of(page, "corrupt", 3) == ["corrupt", "2 objectives", f"{examples:,} examples"]

    causal = rows(output, "corrupt/causal_lm/*/shard-*.arrow")

    assert row_of(page, "· causal_lm", 3)[2].startswith(f"{causal:,} examples, ")
    assert bars_of(page, "clean · dropped documents") == ["gopher_short_doc", "1 · 2.9 %"]
    assert bars_of(page, "clean · dropped records") == ["bad_json", "1 · 2.9 %"]
    assert bars_of(page, "dedup · dropped documents") == ["exact_duplicate", "3 · 9.1 %"]


def test_texts_are_shown_with_their_origin(run, page):
    output, _ = run
    documents = sorted(read_documents(only_part(output / "dedup")), key=lambda one: one.uid)
    shown = [text.removesuffix(" …") for text in page.texts if MARKUP in text]

    assert sum(any(one.text.startswith(text) for one in documents) for text in shown) >= 3
    assert page.count("blockquote") == 3 + 1 + 3  # kept, too short, copies

    origins = [one for one in page.texts if one.startswith("default/<b>part.jsonl at ")]

    assert origins[:3] == [f"default/<b>part.jsonl at {one.offset:,}" for one in documents[:3]], (
        "of the smallest uids"
    )

    at = page.texts.index("clean · gopher_short_doc")

    assert page.texts[at + 1] == MARKUP.strip()
    assert page.texts[at + 2].startswith("default/<b>part.jsonl at ")


def test_stages_one_by_one_lead_to_the_page_of_the_run(run, tmp_path):
    """Each stage draws the page of what is complete.

    A stage that is made again takes the later ones off the page.
    """
    arguments = [*run[1], f"output={tmp_path}"]
    drawn = []

    for stage in STAGES:
        assert run_stage(stage, arguments) == 0
        drawn.append((tmp_path / "report.html").read_text())
        assert set(json.loads((tmp_path / "report.json").read_text())["stages"]) == set(
            STAGES[: len(drawn)]
        )

    assert "<td>dedup</td>" in drawn[1]
    assert "<td>encode</td>" not in drawn[1]

    both = drawn[-1], (run[0] / "report.html").read_text()
    # without seconds
    mine, theirs = (re.sub(r"<td class=n>[\d,]+\.\d(?: s)?</td>", "", one) for one in both)

    assert mine.replace(str(tmp_path), str(run[0])) == theirs
    assert run_stage("clean", [*arguments, "clean.keep_text=0"]) == 0

    again = (tmp_path / "report.html").read_text()

    assert "<td>dedup</td>" not in again
    assert any("not stored: see clean.keep_text" in shown for shown in checked(again).texts)
    assert not any("not stored: see clean.keep_text" in shown for shown in checked(drawn[-1]).texts)


def test_a_finished_run_is_not_drawn_again_and_a_changed_stage_is(run, monkeypatch):
    output, arguments = run
    drawn = []
    monkeypatch.setattr(
        "clozeline.pipeline.execution.report.publish_text", lambda path, text: drawn.append(path)
    )

    assert main(arguments) == 0
    assert run_stage("clean", arguments) == 0
    assert drawn == []

    (output / "encode" / "report.json").unlink()  # written again, with other seconds

    assert main(arguments) == 0
    assert drawn == [output / "report.html"]


@pytest.mark.parametrize("damage", ["cut", "flip", "newer", "gone"])
@pytest.mark.parametrize("name", ["clean", ""])
def test_a_damaged_report_is_named_or_written_again(run, tmp_path, capsys, name, damage):
    """A later stage names that of an earlier one.

    The stage itself, and the run, write theirs again.
    """
    arguments = [*run[1][:-1], f"output={shutil.copytree(run[0], tmp_path / 'out')}"]
    path = tmp_path / "out" / name / "report.json"
    whole = path.read_text()
    path.unlink()
    edits = {
        "cut": (whole[-9:], ""),
        "flip": ("7", "8"),
        "newer": ('"format": 1', '"format": 2'),
    }
    if damage != "gone":
        path.write_text(whole.replace(*edits[damage], 1))
    os.utime(tmp_path / "out" / "dedup" / "report.json")
    code = run_stage("dedup", arguments)

    if name and damage != "gone":
        assert code == 65
        assert f"{path}: " in (said := capsys.readouterr().err)
        assert "run `clozeline clean` again" in said

    assert main(arguments) == 0

    part = "counts" if name else "stages"

    assert json.loads(path.read_text())[part] == json.loads(whole)[part]


def test_a_report_names_what_decided_its_output(tmp_path):
    domains = tmp_path / "domains.txt"
    domains.write_text("bad.example\n")
    clean = {
        "language": None,
        "filters": [{"name": "url", "domains": [str(domains)]}],
    }
    stage = CleanStage(recipe_for(str(domains), tmp_path / "out", clean))
    (work,) = stage.passes()
    describer = Describer()
    (given,) = map(describer.describe, work.units.values())
    for digest, value in describer.options.items():
        publish_json(options_path(stage.folder, digest), value)
    outputs = {"a": {"bytes": 5}, "b": {"bytes": 2}}
    records = [
        UnitRecord("main", name, {**given, "name": name}, {}, "ok", {}, outputs)
        for name in ("a", "b", "c")
    ]
    summary = StageSummary("clean", {"documents_in": 4}, StageRow(""), 21, 1.25, 3, skipped=False)
    write_stage_report(stage.folder, summary, records)
    report = read_report(stage.folder / "report.json", "")

    assert [report[name] for name in ("counts", "units", "bytes", "seconds")] == [
        {"documents_in": 4},
        3,
        21,
        1.25,
    ]

    decided = report["deciders"]

    given = decided["passes"]["main"]
    (options,) = given["options"]

    assert options["versions"] == {
        "resiliparse": ResiliparseExtractor.VERSION,
        "url": Url.VERSION,
    }
    assert given["corpus"] == "test"
    assert "name" not in given

    packages = decided["packages"]

    assert (packages["python"], packages["numpy"]) == (platform.python_version(), version("numpy"))


def test_examples_of_each_objective_are_on_the_page(run, page):
    """As `inspect-shard` shows them: the labels of a masked row, at most three rows of a set."""
    output, _ = run
    content = (output / "report.html").read_text(encoding="utf-8")
    section = content[content.index("Some examples of each objective") :]

    for label in ("causal_lm", "masked_lm"):
        total = len(open_shards(output / "corrupt" / label / "train" / "manifest.json"))
        part = section[section.index(f"<h3>{label}</h3>") :].split("<h3>")[1]
        assert re.findall(r"row ([\d,]+) of ([\d,]+)", part) == [
            (f"{number:,}", f"{total:,}") for number in (1, (total - 1) // 2 + 1, total)
        ]
        assert ("masked" in part) == (label == "masked_lm")

    assert "<img" not in section, "texts are escaped"


OBJECTIVES = """
corpus: objectives
seed: 2
heldout: {fraction: 0.1}
clean: {language: null, filters: []}
train_tokenizer: {name: byte_bpe, size: 500}
encode: {}
group: {}
corrupt:
  - {name: span_corruption, input_length: 64}
  - {name: text_infilling, max_length: 64}
  - {name: permuted_lm, max_length: 64}
  - {name: mass, max_length: 64}
  - {name: prefix_lm, max_length: 64}
  - {name: next_sentence_prediction, max_length: 64}
  - {name: sentence_reordering, max_length: 64}
  - {name: document_rotation, max_length: 64}
  - {name: replaced_token_detection, max_length: 64}
  - {name: span_boundary, max_length: 64}
"""


def test_the_page_shows_examples_with_targets_orders_spans_and_pairs(tmp_path):
    texts = [json.dumps({"text": text(number, 6 + number % 5)}) for number in range(30)]
    (tmp_path / "texts.jsonl").write_text("\n".join(texts), encoding="utf-8")
    words = [f"input={tmp_path / 'texts.jsonl'}", f"output={tmp_path / 'out'}"]

    assert main(["--config", str(write_recipe(tmp_path, OBJECTIVES)), *words]) == 0

    content = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    checked(content)
    for label in re.findall(r"name: (\w+), (?:max|input)_length", OBJECTIVES):
        part = content[content.index(f"<h3>{label}</h3>") :].split("<h3>")[1]
        assert len(re.findall(r"row [\d,]+ of", part)) == 3, label
