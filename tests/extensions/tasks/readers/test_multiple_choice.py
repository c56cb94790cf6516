"""Multiple choice: files of users, SWAG's table, and RACE's folder of articles."""

import csv
import json

import pytest

from clozeline.configuration.config import config_file, read_composed
from clozeline.extensions.tasks.readers import Choices, Rejected
from clozeline.pipeline.recipe import Recipe
from tests.extensions.tasks.readers.reading import (
    items_of,
    json_lines,
    read,
    reader_of,
    reasons,
    written,
)
from tests.refusals import refused


def test_choices_of_one_field_or_of_several(tmp_path):
    rows = json_lines({"q": {"text": "Why?"}, "options": ["a", "b", "c"], "key": "C"})
    options = {
        "context": "q.text",
        "choices": ["options"],
        "answer": "key",
        "answers": ["A", "B", "C"],
    }

    assert read(tmp_path, rows, "multiple_choice", **options) == [
        Choices("Why?", ("a", "b", "c"), 2, 0)
    ]

    rows = json_lines({"sent1": "One.", "sent2": "He", "e0": "runs.", "e1": "sits.", "label": "1"})
    options = {"context": "sent1", "begin": "sent2", "choices": ["e0", "e1"]}

    assert read(tmp_path, rows, "multiple_choice", **options) == [
        Choices("One.", ("He runs.", "He sits."), 1, 0)
    ]

    columns = {"context": ["sent1"], "choices": ["e0", "e1"]}

    assert reader_of("multiple_choice", **options).input_columns(()) == {
        **columns,
        "begin": ["sent2"],
    }
    assert reader_of("multiple_choice", **{**options, "begin": None}).input_columns(()) == columns


def test_every_other_line_has_a_reason(tmp_path):
    good = {"context": "a", "choices": ["b", "c"], "label": 1}
    bad = [
        {**good, "label": 2},
        {**good, "label": -1},
        {**good, "label": True},
        {**good, "label": "x"},
        {**good, "label": None},
        {**good, "choices": ["b"]},
        {**good, "choices": ["b", 3]},
        {**good, "context": 3},
        {**good, "context": " "},
        {**good, "choices": ["b", ""]},
        [good],
    ]

    items = read(tmp_path, json_lines(good, *bad), "multiple_choice")

    assert items[0] == Choices("a", ("b", "c"), 1, 0)
    assert reasons(items) == {
        "bad_label": 4,
        "no_label": 1,
        "fields": 3,
        "empty_text": 2,
        "bad_json": 1,
    }


@pytest.mark.parametrize(
    ("numbers", "from_1"),
    [
        (("1", "2", "1"), True),
        ((1, 2, 2), True),
        ((2, 1, 2), True),
        ((0, 2, 1), False),
        ((1, 1), False),
        ((0,), False),
    ],
)
def test_answers_that_count_from_1_are_refused(tmp_path, numbers, from_1):
    """Not where some are 0, or none is beyond the choices."""
    path = written(
        tmp_path,
        json_lines(*({"context": "a", "choices": ["b", "c"], "label": one} for one in numbers)),
    )
    reader = reader_of("multiple_choice")
    if not from_1:
        assert reader.complete_options({"train": path}) == reader.options
        return

    with refused(r"count from 1: set tasks\.reader\.answers"):
        reader.complete_options({"train": path})
    items = items_of(reader_of("multiple_choice", answers=["1", "2"]), path)

    assert [item.right for item in items] == [int(number) - 1 for number in numbers]


SWAG = [
    "",
    "video-id",
    "fold-ind",
    "startphrase",
    "sent1",
    "sent2",
    "gold-source",
    "ending0",
    "ending1",
    "ending2",
    "ending3",
    "label",
]


def story(number, sent1="A man waits.", label="2"):
    return [
        str(number),
        f"v{number % 2}",
        "7",
        f"{sent1} He",
        sent1,
        "He",
        "gold",
        "leaves.",
        'says, "no".',
        "falls.",
        "eats.",
        label,
    ]


def test_the_files_of_swag(tmp_path):
    """As pandas writes them for the authors: quotes enclose commas, and a stray one costs its own
    line."""
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
    with (tmp_path / "train.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([SWAG, *rows])
        file.write('6,v1,7,x,"open,He,gold,a,b,c,d,1\n7,v1,7,x,A,He,gold,a,b,c,d,1\n')

    items = items_of(reader, tmp_path / "train.csv")
    endings = ("He leaves.", 'He says, "no".', "He falls.", "He eats.")

    assert items[:2] == [
        Choices("A man waits.", endings, 2, 1, "video-id v0"),
        Choices('One, "two".', endings, 0, 2, "video-id v1"),
    ]
    assert reasons(items) == {"bad_label": 2, "empty_text": 1, "fields": 1, "bad_csv": 1}
    assert [item.index for item in items if not isinstance(item, Rejected)] == [1, 2, 8]

    test = written(tmp_path, f"{','.join(SWAG[:-1])}\n0,v,7,x,A man,He,gold,a,b,c,d\n", "test.csv")

    assert reasons(items_of(reader, test)) == {"no_label": 1}


ARTICLE = {
    "answers": ["B", "A"],
    "options": [["at home", "at school"], ["red", "blue", "green"]],
    "questions": ["Where is _ ?", "What colour?"],
    "article": "Ada is at school. ",
    "id": "high1.txt",
}


def write_articles(tmp_path, **articles):
    """Write a split; names are LEVEL_NUMBER. Return its first file."""
    for name, article in articles.items():
        path = tmp_path / "train" / name.partition("_")[0] / f"{name.partition('_')[2]}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(article if isinstance(article, str) else json.dumps(article))

    return sorted((tmp_path / "train").glob("*/*.txt"))[0]


def test_every_question_of_race_is_a_row(tmp_path):
    first = write_articles(tmp_path, middle_7=ARTICLE | {"article": "Bob is here."}, high_1=ARTICLE)
    choices = (
        ("Where is _ ? at home", "Where is _ ? at school"),
        ("What colour? red", "What colour? blue", "What colour? green"),
    )
    expected = [
        Choices(article, options, right, index, f"{level}.txt")
        for index, (article, level, options, right) in enumerate(
            (article, level, *question)
            for article, level in (("Ada is at school.", "high/1"), ("Bob is here.", "middle/7"))
            for question in zip(choices, (1, 0), strict=True)
        )
    ]

    reader = reader_of("race")

    assert items_of(reader, first) == expected

    assert items_of(reader_of("race", level="middle"), first) == [
        Choices("Bob is here.", choices[number], right, number, "middle/7.txt")
        for number, right in enumerate((1, 0))
    ]
    assert reader_of("race", level="middle").metadata.name == "race_middle"


def test_every_other_question_of_race_has_a_reason(tmp_path):
    first = write_articles(
        tmp_path,
        high_0="{",
        high_1="[]",
        high_2=ARTICLE | {"questions": []},
        high_3=ARTICLE | {"answers": ["E"]},
        high_4=ARTICLE | {"answers": None, "article": ""},
        high_5=ARTICLE | {"options": [["one"], ["red", ""]]},
        high_6=ARTICLE | {"questions": [3, "What?"]},
        high_7=ARTICLE | {"questions": ["Where?"], "options": ["one"] * 3},
    )

    items = items_of(reader_of("race"), first)

    assert reasons(items) == {"fields": 6, "bad_label": 1, "no_label": 1, "empty_text": 3}

    detail = next(
        item.detail for item in items if isinstance(item, Rejected) and item.reason == "bad_label"
    )

    assert detail.startswith("high/3.txt: the answer (answer) is 'E', expected A, B")

    (tmp_path / "train/high/8.txt").write_bytes(bytes(range(256)))

    assert reasons(items_of(reader_of("race"), first))["charset"] == 1
