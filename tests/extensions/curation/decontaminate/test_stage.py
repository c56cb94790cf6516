"""The complete stage on documents in memory, against a search by sets, and in any order."""

import json
import random

import pytest

from tests.extensions.curation.decontaminate.contaminated_texts import (
    VOCABULARY,
    brute_force,
    disguise,
    prose,
)
from tests.matrices import mark_slow_but
from tests.pipeline.dedup.dedup_documents import document
from tests.pipeline.stage_in_memory import StageResult, run_in_memory


@pytest.fixture
def items(tmp_path):
    """`items(texts, name)`: a file of lines of JSON with these texts."""

    def write(texts, name="items.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        return str(path)

    return write


@pytest.fixture
def run_stage(tmp_path_factory):
    """`run_stage(parts, config, reverse=False)`: the stage over lists of documents."""

    def run(parts, config, reverse=False):
        folder = tmp_path_factory.mktemp("run")
        return StageResult(*run_in_memory(folder, "decontaminate", parts, config, reverse=reverse))

    return run


ITEM = "When the frost came, 17 herons left the frozen lake of Inari for the open sea near Bergen."


def planted(seed, number):
    """Texts, a quarter of them with a run of an item at the start, in the middle or at the end.

    And the items.
    """
    draw = random.Random(seed)
    items = [prose(draw, draw.choice([3, 4, 5, 6, 9, 12, 13, 14, 20, 40])) for _ in range(60)]
    common = items[7]
    texts = []

    for _ in range(number):
        words = prose(draw, draw.randrange(1, 60)).split()

        if draw.random() < 0.25:
            item = draw.choice(items).split()
            start = draw.randrange(max(1, len(item) - 11))
            run = disguise(
                draw, " ".join(item[start : start + draw.choice([4, 5, 11, 12, 13, 14, 30])])
            )
            at = draw.choice([0, len(words) // 2, len(words)])
            words[at:at] = [run]

        if draw.random() < 0.02:
            words += [common]
        texts.append(" ".join(words))

    return texts, items


@pytest.mark.parametrize(("seed", "ngram"), mark_slow_but([(1, 13)], [(1, 13), (2, 8), (3, 5)]))
def test_two_thousand_texts_as_by_sets(run_stage, items, seed, ngram):
    texts, evaluated = planted(seed, 2000)
    expected = brute_force(texts, [[text] for text in evaluated], ngram, most=10)
    rows = [document(number, text) for number, text in enumerate(texts)]
    config = {"against": [items(evaluated)], "ngram": ngram}
    result = run_stage([rows[:700], rows[700:700], rows[700:]], config)
    found = {number for number, held in enumerate(expected["found"]) if held}

    assert {row.offset for row in result.rejected()} == found
    assert {row.offset for row in result.documents()} == set(range(2000)) - found
    assert len(found) > 100
    assert expected["ignored"]
    # the items of the reports
    overlap = result.json("overlap.json")
    documents = {row["row"]: row["documents"] for row in overlap["suites"]["items"]["found"]}

    assert documents == {
        item: sum(item in held for held in expected["found"]) for item in expected["dirty"]
    }
    assert {tuple(row["words"].split()) for row in overlap["ignored"]} == expected["ignored"]

    suite = overlap["suites"]["items"]

    assert (suite["contaminated"], suite["too_short"], suite["items"]) == (
        len(expected["dirty"]),
        len(expected["too_short"]),
        60,
    )


def test_a_run_in_more_documents_than_allowed_is_ignored_and_listed(run_stage, items):
    rows = [document(number, f"{VOCABULARY[number]} {ITEM}") for number in range(4)]
    config = {"against": [items([ITEM])]}

    assert run_stage([rows], {**config, "max_document_frequency": 4}).documents() == []

    result = run_stage([rows[:1], rows[1:]], {**config, "max_document_frequency": 3})

    assert result.documents() == rows
    assert result.counts["entries"] == {"full": 6, "short": 0, "too_frequent": 6}
    assert {row["documents"] for row in result.json("overlap.json")["ignored"]} == {4}
    assert result.json("overlap.json")["suites"]["items"]["found"] == []


def test_both_sides_of_a_pair_are_looked_up_apart(run_stage, items):
    """A run repeated in one document is one document; a rejection names the item and the words."""
    words = ITEM.split()
    rows = [
        document(0, "a text", target_text=f"{ITEM} " * 50, target_language="en"),
        document(1, " ".join(words[:8]), target_text=" ".join(words[8:]), target_language="en"),
    ]
    evaluated = {
        "against": [items(["another item of many words", ITEM])],
        "max_document_frequency": 1,
    }
    (row,) = run_stage([rows], evaluated).rejected()

    assert (row.offset, row.stage, row.reason) == (0, "decontaminate", "contaminated")
    assert row.detail == "items 1: when the frost came 17 herons left the frozen lake of inari for"


def test_another_number_or_operator_is_another_item(run_stage, items):
    templates = [ITEM.replace("17", str(number)) for number in (4, 17, 23)]
    sums = [f"what is x {sign} y if x = 5" for sign in "+-*/"]
    rows = [document(number, text) for number, text in enumerate([*templates, *sums])]
    config = {"against": [items([ITEM.split(" left")[0], sums[2]])]}

    assert run_stage([rows], config).documents() == [rows[at] for at in (0, 2, 3, 4, 6)]


def test_no_order_of_documents_parts_items_or_files_changes_a_decision(run_stage, items):
    """Nor that of files and units a byte."""
    texts, evaluated = planted(4, 300)
    rows = [document(number, text) for number, text in enumerate(texts)]
    expected = None

    for trial in range(4):
        draw = random.Random(trial)
        cut = draw.randrange(len(rows))
        shuffled = draw.sample(rows, len(rows))
        files = [
            items(draw.sample(evaluated[:30], 30), "a.jsonl"),
            items(draw.sample(evaluated[30:], 30), "b.jsonl"),
        ]
        parts = [shuffled[:cut], shuffled[cut:]]
        bytes_ = []
        for order in (files, files[::-1]):
            result = run_stage(parts, {"against": order}, reverse=order is files)
            bytes_.append(result.published("*"))

        assert bytes_[0] == bytes_[1]

        overlap = result.json("overlap.json")
        suites = {
            name: {**suite, "found": len(suite["found"])}
            for name, suite in overlap["suites"].items()
        }
        decided = ({row.uid for row in result.rejected()}, suites, overlap["ignored"])
        expected = expected or decided

        assert decided == expected

    assert expected[0]


ONE = "alder birch cedar dogwood elm fir ginkgo hazel ivy juniper kapok larch maple neem oak"
TWO = "amber beryl coral diamond emerald flint garnet"


def test_documents_and_shares_of_items_and_suites(run_stage, items):
    files = [
        items([ONE, TWO, "too short"], "first.jsonl"),
        items([TWO, f"{ONE} and pine"], "second.jsonl"),
    ]
    rows = [
        document(0, " ".join(ONE.split()[:13])),
        document(1, f"{TWO}, and {ONE}"),
        document(2, f"{TWO} {TWO}"),
        document(3, "nothing of them"),
    ]

    result = run_stage([rows[:2], rows[2:]], {"against": files})

    assert result.counts["suites"] == {
        "first": {
            "items": 3,
            "unreadable": 0,
            "too_short": 1,
            "words": 22,
            "overlap_words": 22,
            "contaminated": 2,
            "documents": 3,
        },
        "second": {
            "items": 2,
            "unreadable": 0,
            "too_short": 0,
            "words": 24,
            "overlap_words": 22,
            "contaminated": 2,
            "documents": 3,
        },
    }
    assert result.counts["rejected"] == {"contaminated": 3}

    overlap = result.json("overlap.json")["suites"]["second"]

    assert overlap["overlap"] == round(22 / 24, 6)
    assert overlap["found"] == [
        {"file": "second.jsonl", "row": 0, "id": "0", "documents": 2, "overlap": 1.0},
        {"file": "second.jsonl", "row": 1, "id": "1", "documents": 2, "overlap": round(15 / 17, 6)},
    ]
