"""Documents and overlap of items and suites, counted once each."""

from __future__ import annotations

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
        "first": {"items": 3, "unreadable": 0, "too_short": 1, "words": 22, "overlap_words": 22,
                  "contaminated": 2, "documents": 3},
        "second": {"items": 2, "unreadable": 0, "too_short": 0, "words": 24, "overlap_words": 22,
                   "contaminated": 2, "documents": 3},
    }  # fmt: skip
    assert result.counts["contaminated_documents"] == 3
    overlap = result.json("overlap.json")["suites"]["second"]
    assert overlap["overlap"] == round(22 / 24, 6)
    assert overlap["found"] == [
        {"file": "second.jsonl", "row": 0, "id": "0", "documents": 2, "overlap": 1.0},
        {"file": "second.jsonl", "row": 1, "id": "1", "documents": 2, "overlap": round(15 / 17, 6)},
    ]
