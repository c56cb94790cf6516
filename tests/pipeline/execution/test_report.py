"""The page of a run against counts made from the input and from the published files."""

import json
import platform
import re
import shutil

import pyarrow as pa
import pytest

from clozeline.pipeline.execution.recipe_command import main, run_stage
from clozeline.pipeline.execution.report import read_report
from clozeline.pipeline.ingest.documents.files import read_documents
from tests.pages import checked
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
  - {name: span_corruption, input_length: 64}
  - {name: permuted_lm, max_length: 64}
  - {name: next_sentence_prediction, max_length: 64}
  - {name: replaced_token_detection, max_length: 64}
  - {name: span_boundary, max_length: 64}
"""
LABELS = re.findall(r"name: (\w+), (?:max|input)_length", RECIPE)
STAGES = ["clean", "dedup", "train_tokenizer", "encode", "group", "corrupt"]
MARKUP = '<img src=x onerror=alert(1)> & "quoted" '


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small run and its arguments: 30 texts, one twice and one three times, one too short, one
    broken line."""
    folder = tmp_path_factory.mktemp("report")
    texts = [MARKUP + text(number, 6 + number % 5) for number in range(30)]
    texts += [texts[0], texts[0], texts[5], MARKUP]
    (folder / "crawl").mkdir()
    lines = [*(json.dumps({"text": one}) for one in texts), "{broken"]
    (folder / "crawl" / "<b>part.jsonl").write_text("\n".join(lines))
    arguments = ["--config", str(write_recipe(folder, RECIPE)), f"input={folder / 'crawl'}"]

    assert main([*arguments, f"output={folder / 'out'}"]) == 0

    return folder / "out", arguments


def rows(output, pattern):
    return sum(pa.ipc.open_file(path).read_all().num_rows for path in output.glob(pattern))


def test_amounts_are_what_the_files_hold(run):
    output, _ = run
    page = checked((output / "report.html").read_text())
    cells = "|".join(page.cells)
    shown = "|".join(page.texts)
    documents = [*read_documents(only_part(output / "dedup"))]
    examples = rows(output, "corrupt/*/*/shard-*.arrow")
    assert "clean|35 records\n34 documents|33 documents|0.3 %\n0.044 % of bytes|" in cells
    assert "dedup|33 documents|30 documents|" in cells
    assert f"corrupt|{len(LABELS)} objectives|{examples:,} examples|" in cells
    assert f"· causal_lm|{rows(output, 'corrupt/causal_lm/*/shard-*.arrow'):,} examples" in re.sub(
        r"causal_lm\|[^|]*\|", "causal_lm|", cells
    )

    for name, reason, share in (
        ("clean · dropped documents", "gopher_short_doc", "1 · 2.9 %"),
        ("clean · dropped records", "bad_json", "1 · 2.9 %"),
        ("dedup · dropped documents", "exact_duplicate", "3 · 9.1 %"),
    ):
        assert f"{name}|{reason}|{share}" in shown

    # texts have their origin; kept ones are those of the smallest uids
    kept = sorted(documents, key=lambda one: one.uid)[:3]
    origins = re.findall(r"default/<b>part.jsonl at ([\d,]+)", shown)

    assert origins[:3] == [f"{one.offset:,}" for one in kept]
    origins = [text for text in page.texts if text.startswith("default/<b>part.jsonl at ")]
    assert len(origins) == 3 + 1 + 3  # kept, too short, copies
    assert f"clean · gopher_short_doc|{MARKUP.strip()}|default/<b>part" in shown


def test_examples_of_each_objective_are_on_the_page(run):
    content = (run[0] / "report.html").read_text()
    section = content[content.index("Some examples of each objective") :]

    assert "<img" not in section, "texts are escaped"
    for label in LABELS:
        part = section.split(f"<summary>{label}</summary>")[1].split("<summary>")[0]
        assert len(re.findall(r"row [\d,]+ of", part)) == 3, label


def test_stages_one_by_one_lead_to_the_page_of_the_run(run, tmp_path):
    """Each stage draws the page of what is complete.

    A stage that is made again takes the later ones off the page.
    """
    arguments = [*run[1], f"output={tmp_path}"]

    def draw(*words):
        assert run_stage(*words) == 0
        page = (tmp_path / "report.html").read_text()
        return {stage for stage in STAGES if f"<td>{stage}</td>" in page}, page

    drawn = [draw(stage, arguments) for stage in STAGES]

    assert [stages for stages, _ in drawn] == [{*STAGES[: n + 1]} for n in range(len(STAGES))]

    before = drawn[-1][1]
    _, again = draw("clean", [*arguments, "clean.keep_text=0"])
    missing = "not stored: see clean.keep_text"

    assert ("<td>dedup</td>" in before, "<td>dedup</td>" in again) == (True, False)
    assert (missing in before, missing in again) == (False, True)


@pytest.mark.parametrize(("old", "new"), [("}", ""), ("7", "8"), ('"format": 1', '"format": 2')])
def test_a_damaged_report_is_written_again(run, tmp_path, old, new):
    arguments = [*run[1], f"output={shutil.copytree(run[0], tmp_path / 'out')}"]
    path = tmp_path / "out" / "clean" / "report.json"
    whole = path.read_text()
    path.write_text(whole.replace(old, new, 1))

    assert run_stage("dedup", arguments) == 0
    assert json.loads(path.read_text())["counts"] == json.loads(whole)["counts"]


def test_a_report_names_the_packages(run):
    packages = read_report(run[0] / "clean")["packages"]

    assert packages["python"] == platform.python_version()
