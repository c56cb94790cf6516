from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from clozeline.configuration.config import config_file, read_composed
from clozeline.errors import ConfigurationError
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.tasks.readers import Choices, Rejected
from tests.pipeline.tasks.readers.reading import items_of, published, reader_of, reasons, with_data, written


def lines(*rows: Any) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def test_choices_of_one_field_or_of_several(tmp_path: Path) -> None:
    rows = [{"q": {"text": "Why?"}, "options": ["a", "b", "c"], "key": "C"}]
    reader = reader_of("multiple_choice", context="q.text", choices=["options"], answer="key", answers=["A", "B", "C"])
    assert items_of(reader, written(tmp_path, lines(*rows))) == [Choices("Why?", ("a", "b", "c"), 2, 0)]
    rows = [{"sent1": "One.", "sent2": "He", "e0": "runs.", "e1": "sits.", "label": "1"}]
    reader = reader_of("multiple_choice", context="sent1", begin="sent2", choices=["e0", "e1"])
    assert items_of(reader, written(tmp_path, lines(*rows))) == [Choices("One.", ("He runs.", "He sits."), 1, 0)]


def test_every_other_line_has_a_reason(tmp_path: Path) -> None:
    good = {"context": "a", "choices": ["b", "c"], "label": 1}
    bad = [
        {**good, "label": 2}, {**good, "label": -1}, {**good, "label": True}, {**good, "label": "x"},
        {**good, "label": None}, {**good, "choices": ["b"]}, {**good, "choices": ["b", 3]}, {**good, "context": 3},
        {**good, "context": " "}, {**good, "choices": ["b", ""]}, [good],
    ]  # fmt: skip
    items = items_of(reader_of("multiple_choice"), written(tmp_path, lines(good, *bad)))
    assert items[0] == Choices("a", ("b", "c"), 1, 0)
    assert reasons(items) == {"bad_label": 4, "no_label": 1, "fields": 4, "empty_text": 2}


def test_files_of_another_layout(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="columns context, choices, got label without context, choices"):
        reader_of("multiple_choice").open(written(tmp_path, lines({"label": 1})))


@pytest.mark.data
@with_data
def test_real_stories() -> None:
    reader = reader_of("multiple_choice", task="swag", context="sent1", begin="sent2",
                       choices=[f"ending{number}" for number in range(4)])  # fmt: skip
    items = items_of(reader, published("samples/swag/sample.json"))
    assert items[0].choices[0] == "A drum line passes by walking down the street playing their instruments."
    assert {len(item.choices) for item in items} == {4}
    piqa: dict[str, Any] = {"task": "piqa", "context": "goal", "choices": ["sol1", "sol2"]}
    path = published("piqa/valid.jsonl.zst")
    assert reasons(items_of(reader_of("multiple_choice", **piqa), path)) == {"no_label": 1838}


@pytest.mark.parametrize("numbers", [("1", "2", "1"), (1, 2, 2), (2, 1, 2)])
def test_answers_that_count_from_1_are_refused(tmp_path: Path, numbers: tuple[Any, ...]) -> None:
    rows = [{"context": "a", "choices": ["b", "c"], "label": number} for number in numbers]
    path = written(tmp_path, lines(*rows))
    with pytest.raises(ConfigurationError, match=r"count from 1: name them by tasks\.reader\.answers"):
        reader_of("multiple_choice").complete_options({"train": path})
    items = items_of(reader_of("multiple_choice", answers=["1", "2"]), path)
    assert [item.right for item in items] == [int(number) - 1 for number in numbers]


@pytest.mark.parametrize("numbers", [(0, 2, 1), (1, 1, 1), (0, 0)])
def test_answers_of_which_some_are_0_or_none_is_beyond_stay(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    path = written(tmp_path, lines(*({"context": "a", "choices": ["b", "c"], "label": number} for number in numbers)))
    reader = reader_of("multiple_choice")
    assert reader.complete_options({"train": path}) == reader.options


SWAG = ["", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source", "ending0", "ending1", "ending2",
        "ending3", "label"]  # fmt: skip


def story(number: int, sent1: str = "A man waits.", label: str = "2") -> list[str]:
    return [str(number), f"v{number % 2}", "7", f"{sent1} He", sent1, "He", "gold", "leaves.", 'says, "no".', "falls.",
            "eats.", label]  # fmt: skip


def test_the_files_of_swag(tmp_path: Path) -> None:
    """As pandas writes them for the authors: quotes enclose commas, and a stray one costs its own line."""
    recipe = read_composed(Recipe, config_file("recipe:tasks/swag", "pipeline.yaml"))
    reader = reader_of(**recipe["tasks"]["reader"])
    rows = [
        story(0),
        story(1, 'One, "two".', "0"),
        story(2, label="4"),
        story(3, " "),
        story(4)[:-1],
        story(5, label=""),
    ]
    with (tmp_path / "train.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([SWAG, *rows])
        file.write('6,v1,7,x,"open,He,gold,a,b,c,d,1\n7,v1,7,x,A,He,gold,a,b,c,d,1\n')
    items = items_of(reader, tmp_path / "train.csv")
    endings = ("He leaves.", 'He says, "no".', "He falls.", "He eats.")
    assert items[:2] == [
        Choices("A man waits.", endings, 2, 1, "video-id v0"), Choices('One, "two".', endings, 0, 2, "video-id v1")
    ]  # fmt: skip
    assert reasons(items) == {"bad_label": 2, "empty_text": 1, "fields": 1, "bad_csv": 1}
    assert [item.index for item in items if not isinstance(item, Rejected)] == [1, 2, 8]
    test = written(tmp_path, f"{','.join(SWAG[:-1])}\n0,v,7,x,A man,He,gold,a,b,c,d\n", "test.csv")
    assert reasons(items_of(reader, test)) == {"no_label": 1}
