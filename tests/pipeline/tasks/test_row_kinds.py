from __future__ import annotations

from typing import get_args

from model.registry import names
from pipeline.task_readers import HeadName
from pipeline.tasks.row_kinds import ROW_KINDS


def test_every_head_of_a_task_has_rows() -> None:
    assert {head for head, _ in ROW_KINDS} == set(get_args(HeadName)) <= set(names("model.heads"))
