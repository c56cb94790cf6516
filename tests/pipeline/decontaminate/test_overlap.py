"""Documents and overlap of items and suites, counted once each."""

from __future__ import annotations

import json

import pytest

from clozeline.errors import IntegrityError
from clozeline.files import file_hash
from clozeline.pipeline.decontaminate.overlap import read_clean_items
from tests.pipeline.decontaminate.contaminated_texts import document

ONE = "alder birch cedar dogwood elm fir ginkgo hazel ivy juniper kapok larch maple neem oak"
TWO = "amber beryl coral diamond emerald flint garnet"


def test_documents_and_shares_of_items_and_suites(run_stage, items):
    files = [items([ONE, TWO, "too short"], "first.jsonl"), items([TWO, f"{ONE} and pine"], "second.jsonl")]
    rows = [
        document(0, " ".join(ONE.split()[:13])), document(1, f"{TWO}, and {ONE}"), document(2, f"{TWO} {TWO}"),
        document(3, "nothing of them"),
    ]  # fmt: skip
    result = run_stage([rows[:2], rows[2:]], {"against": files})
    assert result.counts["suites"] == {
        "first": {"items": 3, "unreadable": 0, "too_short": 1, "words": 22, "overlap_words": 22, "contaminated": 2,
                  "documents": 3},
        "second": {"items": 2, "unreadable": 0, "too_short": 0, "words": 24, "overlap_words": 22, "contaminated": 2,
                   "documents": 3},
    }  # fmt: skip
    assert result.counts["contaminated_documents"] == 3
    overlap = result.json("overlap.json")["suites"]["second"]
    assert overlap["overlap"] == round(22 / 24, 6)
    assert overlap["found"] == [
        {"file": "second.jsonl", "row": 0, "id": "0", "documents": 2, "overlap": 1.0},
        {"file": "second.jsonl", "row": 1, "id": "1", "documents": 2, "overlap": round(15 / 17, 6)},
    ]


def test_clean_items_of_each_file_with_its_hash(run_stage, items, tmp_path):
    files = [items([ONE, "too short", TWO], "first.jsonl"), items([TWO], "second.jsonl")]
    result = run_stage([[document(0, ONE)]], {"against": [files[0], {"path": files[1], "suite": "other"}]})
    content = result.json("clean_items.json")
    assert [(file["suite"], file["name"], file["rows"]) for file in content["files"]] == [
        ("first", "first.jsonl", {"clean": [2], "contaminated": [0], "too_short": [1]}),
        ("other", "second.jsonl", {"clean": [0], "contaminated": [], "too_short": []}),
    ]
    assert content["files"][0]["xxh3_128"] == file_hash(tmp_path / "first.jsonl")
    assert (content["ngram"], content["match_version"], content["files"][0]["reader"]) == (13, 2, None)
    assert read_clean_items(result.folder / "clean_items.json") == content["files"]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": 1, "suites": {}}'])
def test_another_file_is_no_report_of_clean_items(tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(IntegrityError, match=r"x\.json: expected the report clean_items\.json of `clozeline decont"):
        read_clean_items(tmp_path / "x.json")


def test_a_changed_report_is_noticed(run_stage, items):
    path = run_stage([[document(0, ONE)]], {"against": items([ONE, TWO])}).folder / "clean_items.json"
    path.write_text(path.read_text().replace('"clean": [1]', '"clean": [0]'))
    assert json.loads(path.read_text())["files"][0]["rows"]["clean"] == [0]
    with pytest.raises(IntegrityError, match="checksum"):
        read_clean_items(path)
