"""RACE's folder: articles with their questions, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clozeline.pipeline.tasks.readers import Choices, Rejected
from tests.pipeline.tasks.readers.reading import items_of, reader_of, reasons

ARTICLE: dict[str, Any] = {
    "answers": ["B", "A"], "options": [["at home", "at school"], ["red", "blue", "green"]],
    "questions": ["Where is _ ?", "What colour?"], "article": "Ada is at school. ", "id": "high1.txt",
}  # fmt: skip


def folder_of(tmp_path: Path, **articles: Any) -> Path:
    """Write a split; names are LEVEL_NUMBER. Return its first file."""
    for name, article in articles.items():
        path = tmp_path / "train" / name.partition("_")[0] / f"{name.partition('_')[2]}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(article if isinstance(article, str) else json.dumps(article), encoding="utf-8")
    return sorted((tmp_path / "train").glob("*/*.txt"))[0]


def test_every_question_is_a_row(tmp_path: Path) -> None:
    first = folder_of(tmp_path, middle_7=ARTICLE | {"article": "Bob is here."}, high_1=ARTICLE)
    choices = (("Where is _ ? at home", "Where is _ ? at school"),
               ("What colour? red", "What colour? blue", "What colour? green"))  # fmt: skip
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
    assert [path.name for path in reader.open(first).others] == ["1.txt", "7.txt"]
    assert items_of(reader_of("race", level="middle"), first) == [
        Choices("Bob is here.", choices[number], right, number, "middle/7.txt") for number, right in enumerate((1, 0))
    ]
    assert reader_of("race", level="middle").facts.name == "race_middle"


def test_every_other_question_has_a_reason(tmp_path: Path) -> None:
    first = folder_of(
        tmp_path, high_0="{", high_1="[]", high_2=ARTICLE | {"questions": []},
        high_3=ARTICLE | {"answers": ["E"]}, high_4=ARTICLE | {"answers": None, "article": ""},
        high_5=ARTICLE | {"options": [["one"], ["red", ""]]}, high_6=ARTICLE | {"questions": [3, "What?"]},
        high_7=ARTICLE | {"questions": ["Where?"], "options": ["one"] * 3},
    )  # fmt: skip
    items = items_of(reader_of("race"), first)
    assert reasons(items) == {"fields": 6, "bad_label": 1, "no_label": 1, "empty_text": 3}
    detail = next(item.detail for item in items if isinstance(item, Rejected) and item.reason == "bad_label")
    assert detail.startswith("high/3.txt: the answer (answer) is 'E', expected A, B")
    (tmp_path / "train" / "high" / "8.txt").write_bytes(b"\xff")
    assert reasons(items_of(reader_of("race"), first))["bad_utf8"] == 1
