"""Describe the answer that a task row asks for: class, number, word classes, or a part of a text."""

import json

from clozeline.pipeline.rows import Row
from clozeline.pipeline.tasks.readers import TaskFacts


def answer_of(facts: TaskFacts | None, row: Row) -> dict[str, str]:
    """Return `label`, `labels`, `target`, `choice`, `tags` or `answer` with its meaning; {} without an answer."""
    if facts is None:
        return {}
    if "label" in row.columns and len(row["label"]) == 1:
        number = int(row["label"][0])
        return {"label": f"{number}, {facts.labels[number]!r} of {facts.name}"}
    if "labels" in row.columns:
        names = [name for name, has in zip(facts.labels, row["labels"].tolist(), strict=True) if has]
        return {"labels": f"{', '.join(names) or 'none'} of {facts.name}"}
    if "target" in row.columns and len(row["target"]) == 1:
        return {"target": f"{float(row['target'][0]):g}, from {facts.low:g} to {facts.high:g} in {facts.name}"}
    if "choice" in row.columns:
        return {"choice": f"{int(row['choice'][0])} of {len(row['choice_starts'])}, numbered from 0"}
    if "tags" in row.columns:
        record = json.loads(row["record"].tobytes())
        tagged = zip(record["words"], record["tags"], strict=True)
        return {"tags": " ".join(f"{word}/{facts.labels[tag]}" for word, tag in tagged)}
    if "answer_span" in row.columns:
        record = json.loads(row["record"].tobytes())
        first, last = row["offsets"].reshape(-1, 2)[row["answer_span"].astype(int)].tolist()
        answer = record["context"][first[0] : last[1]]
        return {"answer": repr(answer) if answer else f"none in this window, of {record['answers']}"}
    return {}
