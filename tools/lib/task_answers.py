"""The answer that a row of a task asks for: its class by name, or its number."""

from __future__ import annotations

from pipeline.rows import Row
from pipeline.task_readers import TaskFacts

__all__ = ["answer_of"]


def answer_of(facts: TaskFacts | None, row: Row) -> dict[str, str]:
    """Return `label` or `target` with its meaning; nothing for a row without one, or of a set that is no task's.

    Args:
        facts: of the row's set, None where it has none.
        row: an example.
    """
    if facts is None:
        return {}
    if "label" in row.columns and len(row["label"]) == 1:
        number = int(row["label"][0])
        return {"label": f"{number}, {facts.labels[number]!r} of {facts.name}"}
    if "target" in row.columns and len(row["target"]) == 1:
        return {"target": f"{float(row['target'][0]):g}, from {facts.low:g} to {facts.high:g} in {facts.name}"}
    return {}
