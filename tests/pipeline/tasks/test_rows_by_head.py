from __future__ import annotations

from typing import get_args

from clozeline.pipeline.tasks.head_rows import ROW_TYPES
from clozeline.pipeline.tasks.readers import HeadName
from clozeline.registry import names


def test_every_head_of_a_task_has_rows() -> None:
    assert {head for head, _ in ROW_TYPES} == set(get_args(HeadName)) <= set(names("clozeline.model.heads"))
