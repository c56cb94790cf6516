from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.pipeline.tasks.readers import TaskFacts, facts_of
from clozeline.tools.shards.inspect_shard import main as inspect
from clozeline.tools.shards.viewer.sheets import describe_answer
from tests.pipeline.task_files import make_choice_sets, make_question_sets, make_sets, make_tagged_sets, open_split


def test_a_class_has_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = make_sets(tmp_path)
    shards = open_split(sets, "dev")
    row = shards.read_block(0).row(0)
    number = int(row["label"][0])
    facts = facts_of(shards.manifest)
    assert facts is not None
    assert describe_answer(facts, row) == {"label": f"{number}, '{number}' of sst2"}
    assert describe_answer(None, row) == {}
    number_task = TaskFacts(name="toy", head="regression", metrics=("pearson",), low=0, high=5)
    assert describe_answer(number_task, type(row)(row.fixed, {"target": row["label"] + 0.5}))["target"].startswith(
        f"{number}.5, "
    )
    assert inspect([str(sets / "dev")]) == 0
    out = capsys.readouterr().out
    assert f"{number}, '{number}' of sst2" in out
    assert "not possible" not in out


def test_tags_stand_beside_their_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = make_tagged_sets(tmp_path)
    row = open_split(sets, "dev").read_block(0).row(0)
    facts = facts_of(open_split(sets, "dev").manifest)
    said = describe_answer(facts, row)["tags"].split()
    assert {one.rpartition("/")[2] for one in said} <= {"O", "B-X", "I-X"}
    assert all(("film" in one or "plot" in one) == one.endswith("/B-X") for one in said)
    assert inspect([str(sets / "dev")]) == 0
    assert " ".join(said) in capsys.readouterr().out


def test_answers_are_parts_of_their_text(tmp_path: Path) -> None:
    shards = open_split(make_question_sets(tmp_path), "dev")
    said = [describe_answer(facts_of(shards.manifest), row)["answer"] for row in shards.read_block(0)]
    assert len(said) == len(shards) > 21
    assert sum(one.startswith("'") for one in said) >= 21
    assert any(one.startswith("none in this window, of ['") for one in said)


def test_a_choice_has_its_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = make_choice_sets(tmp_path)
    shards = open_split(sets, "dev")
    row = shards.read_block(0).row(0)
    said = f"{int(row['choice'][0])} of {len(row['choice_starts'])}, numbered from 0"
    assert describe_answer(facts_of(shards.manifest), row) == {"choice": said}
    assert inspect([str(sets / "dev")]) == 0
    out = capsys.readouterr().out
    assert said in out
    assert "not possible" not in out
