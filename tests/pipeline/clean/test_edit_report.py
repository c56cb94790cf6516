"""The edits of a run as its reports show them, against the input's own lines."""

import json

import pytest

from clozeline.pipeline.execution.report import write_run_report
from tests.pages import checked
from tests.pipeline.clean.cleaning import run_clean

HOSTILE = "<script>alert(1)</script> & menu"
SENTENCE = "The river is wide and slow in summer, and the people walk along it."
CLEAN = {"language": None, "filters": [{"name": "c4_quality", "sentences": 1}]}
LAYOUTS = {
    "one": {"executor": {"tasks": 1}},
    "two": {"executor": {"tasks": 2, "workers": 2}, "plan": {"unit_bytes": 4096}},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same 120 documents, cleaned in units and tasks of several kinds, and their byte offsets."""
    folder = tmp_path_factory.mktemp("edits")
    offsets, content = [], b""
    for number in range(120):
        offsets.append(len(content))
        text = f"See [{number}]: {SENTENCE}\n{HOSTILE} {number}\n{SENTENCE}"
        content += json.dumps({"text": text}).encode() + b"\n"
    (folder / "a.jsonl").write_bytes(content)
    done = {name: run_clean(str(folder / "a.jsonl"), folder / name, CLEAN, **keys) for name, keys in LAYOUTS.items()}
    return offsets, done


def test_the_report_shows_the_three_documents_with_the_smallest_uids(runs):
    offsets, done = runs
    uids = sorted((document.uid.hex(), offsets.index(document.offset)) for document in done["one"].documents)
    edits = json.loads((done["one"].folder / "report.json").read_text())["edits"]
    assert set(edits) == {"c4_quality.citation", "c4_quality.terminal_punctuation"}
    for kind, samples in edits.items():
        for sample, (uid, number) in zip(samples, uids[:3], strict=True):
            before = f"See [{number}]: {SENTENCE}" if kind.endswith("citation") else f"{HOSTILE} {number}"
            after = f"See : {SENTENCE}" if kind.endswith("citation") else ""
            origin = f"default/a.jsonl at {offsets[number]:,}"
            assert sample == {"uid": uid, "origin": origin, "before": before, "after": after}


def test_the_edits_shown_depend_on_neither_units_nor_tasks(runs):
    _, done = runs
    assert len(done["one"].records) == 1 < len(done["two"].records)
    reports = [json.loads((one.folder / "report.json").read_text())["edits"] for one in done.values()]
    assert reports[0] == reports[1]


def test_the_page_shows_both_texts_escaped(runs):
    _, done = runs
    written = write_run_report(done["one"].folder.parent, ["clean"]).read_text(encoding="utf-8")
    page = checked(written)
    assert "<script" not in written
    count = done["one"].counts["edits"]["c4_quality.terminal_punctuation"]
    assert f"clean · c4_quality.terminal_punctuation · {count:,} characters removed" in page.texts
    assert sum(text.startswith(HOSTILE) for text in page.texts) == 3
    assert page.texts.count("after: nothing is left of it") == 3
    assert page.texts.count("after") == 3
