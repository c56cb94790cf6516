"""The complete stage on documents in memory, against a search by sets, and in any order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.decontaminate.config import DecontaminateConfig
from tests.matrices import mark_slow_but
from tests.pipeline.decontaminate.contaminated_texts import (
    VOCABULARY,
    brute_force,
    disguise,
    document,
    prose,
    words_of,
)

ITEM = "When the frost came, 17 herons left the frozen lake of Inari for the open sea near Bergen."


def planted(seed: int, number: int) -> tuple[list[str], list[str]]:
    """Texts, a quarter of them with a run of an item at the start, in the middle or at the end; and the items."""
    draw = random.Random(seed)
    items = [prose(draw, draw.choice([3, 4, 5, 6, 9, 12, 13, 14, 20, 40])) for _ in range(60)]
    common = items[7]
    texts = []
    for _ in range(number):
        words = prose(draw, draw.randrange(1, 60)).split()
        if draw.random() < 0.25:
            item = draw.choice(items).split()
            start = draw.randrange(max(1, len(item) - 11))
            run = disguise(draw, " ".join(item[start : start + draw.choice([4, 5, 11, 12, 13, 14, 30])]))
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
    assert {row.offset for row in result.rejections()} == found
    assert {row.offset for row in result.documents()} == set(range(2000)) - found
    assert len(found) > 100
    assert expected["ignored"]
    # the items of the reports
    overlap = result.json("overlap.json")
    documents = {row["row"]: row["documents"] for row in overlap["suites"]["items"]["found"]}
    assert documents == {item: sum(item in held for held in expected["found"]) for item in expected["dirty"]}
    assert {tuple(row["words"].split()) for row in overlap["ignored"]} == expected["ignored"]
    suite = overlap["suites"]["items"]
    assert (suite["contaminated"], suite["too_short"], suite["items"]) == (
        len(expected["dirty"]), len(expected["too_short"]), 60
    )  # fmt: skip


def held(run_stage, items, text: str, item: str = ITEM, **options) -> bool:
    """Whether a document is dropped for an item."""
    return not run_stage([[document(0, text)]], {"against": [items([item])], **options}).documents()


@pytest.mark.parametrize("before", ["", "It is said that ", "One. Two. "])
@pytest.mark.parametrize("after", ["", " And so on", ", they say."])
def test_thirteen_words_anywhere_are_found_and_twelve_are_not(run_stage, items, before, after):
    words = ITEM.rstrip(".").split()
    assert len(words_of(ITEM)) == 18
    for start in (0, 3, 5):
        run = " ".join(words[start : start + 13])
        assert held(run_stage, items, before + run + after) is True
        assert held(run_stage, items, before + " ".join(words[start : start + 12]) + " elsewhere" + after) is False


@pytest.mark.parametrize(
    "text",
    [
        ITEM.upper(), ITEM.replace(" ", "\n\n"), ITEM.replace("17", "5"), ITEM.replace("herons", "hérons"),
        ITEM.replace("frost", "fro\u0308st"), ITEM.replace("lake of", "lake — of"), "“" + ITEM.replace(" ", "\u00a0"),
    ],
)  # fmt: skip
def test_other_case_marks_digits_and_spaces_are_the_same_words(run_stage, items, text):
    assert held(run_stage, items, text)


@pytest.mark.parametrize(("length", "found"), [(4, False), (5, True), (8, True), (12, True)])
def test_a_short_item_counts_whole(run_stage, items, length, found):
    short = " ".join(ITEM.split()[:length])
    assert held(run_stage, items, f"We read: {short}, and more.", item=short) is found
    assert held(run_stage, items, " ".join(ITEM.split()[1:length]), item=short) is False
    assert held(run_stage, items, short.replace(" ", "x", 1), item=short) is False


def test_a_run_in_more_documents_than_allowed_is_ignored_and_listed(run_stage, items):
    rows = [document(number, f"{VOCABULARY[number]} {ITEM}") for number in range(4)]
    config = {"against": [items([ITEM])]}
    assert run_stage([rows], {**config, "max_document_frequency": 4}).documents() == []
    result = run_stage([rows[:1], rows[1:]], {**config, "max_document_frequency": 3})
    assert result.documents() == rows
    assert result.counts["entries"] == {"full": 6, "short": 0, "too_frequent": 6}
    assert {row["documents"] for row in result.json("overlap.json")["ignored"]} == {4}
    assert result.json("overlap.json")["suites"]["items"]["found"] == []


def test_a_run_repeated_in_one_document_is_one_document(run_stage, items):
    result = run_stage([[document(0, f"{ITEM} " * 50)]], {"against": [items([ITEM])], "max_document_frequency": 1})
    assert len(result.rejections()) == 1


def test_both_sides_of_a_pair_are_looked_up_apart(run_stage, items):
    words = ITEM.split()
    rows = [
        document(0, "a text", target_text=ITEM, target_language="en"),
        document(1, " ".join(words[:8]), target_text=" ".join(words[8:]), target_language="en"),
    ]
    assert [row.offset for row in run_stage([rows], {"against": [items([ITEM])]}).rejections()] == [0]


def test_no_order_of_documents_parts_items_or_files_changes_a_decision(run_stage, items):
    texts, evaluated = planted(4, 300)
    rows = [document(number, text) for number, text in enumerate(texts)]
    expected = None
    for trial in range(6):
        draw = random.Random(trial)
        cut = draw.randrange(len(rows))
        shuffled = draw.sample(rows, len(rows))
        files = [items(draw.sample(evaluated[:30], 30), "a.jsonl"), items(draw.sample(evaluated[30:], 30), "b.jsonl")]
        parts = [shuffled[:cut], shuffled[cut:]]
        result = run_stage(parts, {"against": draw.sample(files, 2)}, reverse=bool(trial % 2))
        decided = {row.uid for row in result.rejections()}
        suites = {name: {**suite, "found": len(suite["found"])} for name, suite in
                  result.json("overlap.json")["suites"].items()}  # fmt: skip
        expected = expected or (decided, suites, result.json("overlap.json")["ignored"])
        assert (decided, suites, result.json("overlap.json")["ignored"]) == expected
    assert expected[0]


def test_the_order_of_files_and_units_gives_the_same_bytes(run_stage, items):
    texts, evaluated = planted(5, 200)
    rows = [document(number, text) for number, text in enumerate(texts)]
    files = [items(evaluated[:30], "a.jsonl"), items(evaluated[30:], "b.jsonl")]
    first = run_stage([rows[:90], rows[90:]], {"against": files})
    assert first.tree() == run_stage([rows[:90], rows[90:]], {"against": files[::-1]}, reverse=True).tree()


def test_a_rejection_names_the_item_and_the_words(run_stage, items):
    result = run_stage([[document(0, ITEM)]], {"against": [items(["another item of many words", ITEM])]})
    (row,) = result.rejections()
    assert (row.stage, row.reason) == ("decontaminate", "contaminated")
    assert row.detail == "items 1: when the frost came 0 herons left the frozen lake of inari for"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ngram": 4}, r"ngram.*5.*got 4"),
        ({"against": []}, r"against.*1"),
        ({"agianst": ["x"]}, "did you mean"),
    ],
)
def test_other_values_are_refused(change, message):
    with pytest.raises(ConfigurationError, match=message):
        validate(DecontaminateConfig, {"against": ["items.jsonl"], **change}, "test")


def test_the_contents_of_files_decide_whether_the_stage_runs_again(run_stage, items, tmp_path: Path):
    from clozeline.pipeline.decontaminate.stage import DecontaminateStage
    from clozeline.pipeline.recipe import Recipe

    def version() -> int:
        plain = {"corpus": "c", "output": str(tmp_path), "decontaminate": {"against": str(tmp_path / "items.jsonl")}}
        return DecontaminateStage(validate(Recipe, plain, "test")).version()

    items([ITEM])
    before = version()
    assert version() == before
    items([ITEM + " "])
    assert version() != before
