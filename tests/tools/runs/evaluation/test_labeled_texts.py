from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import LabeledText, TaskFacts
from clozeline.tools.runs.evaluation.labeled_texts import read_texts

ONE = TaskFacts(name="toy", head="classification", labels=("0", "1"), metrics=("accuracy",))
TWO = TaskFacts(name="toy", head="classification", labels=("0", "1"), metrics=("accuracy",), texts=2)


def test_lines_are_texts_and_every_line_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(b"a film\n\n good \na\tb\n\xff\n")
    items, refused = read_texts(path, ONE)
    assert items == [LabeledText(("a film",), None, None, 0), LabeledText(("good",), None, None, 2)]
    assert sum(refused.values()) == 3
    assert (refused["fields"], refused["empty_text"]) == (1, 1)
    assert [item.texts for item in read_texts(path, TWO)[0]] == [("a", "b")]


def test_a_file_without_texts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("a film\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="expected two texts a line, with a tab between them, got none"):
        read_texts(path, TWO)
