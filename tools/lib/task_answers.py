"""The answer that a row of a task asks for: its class by name, its number, or the classes of its words."""

from __future__ import annotations

import json

from pipeline.rows import Row
from pipeline.task_readers import TaskFacts

__all__ = ["answer_of"]


def answer_of(facts: TaskFacts | None, row: Row) -> dict[str, str]:
    """Return `label`, `target` or `tags` with its meaning; nothing for a row without one, or of another kind of set.

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
    if "tags" in row.columns:
        record = json.loads(row["record"].tobytes())
        tagged = zip(record["words"], record["tags"], strict=True)
        return {"tags": " ".join(f"{word}/{facts.labels[tag]}" for word, tag in tagged)}
    return {}
