from __future__ import annotations

import json
from pathlib import Path

from clozeline.pipeline.tasks.readers import Rejected, SourceTarget, TaskFacts
from clozeline.pipeline.tasks.special_token_templates import Frame
from clozeline.pipeline.tasks.target_rows import TargetRows
from clozeline.pipeline.tasks.task_rows import Form
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from tests.pipeline.task_files import write_vocabulary

FACTS = TaskFacts(name="toy", head="lm", metrics=("exact_match",))
ENDING = Frame("encoder_decoder", (), (), ("sep",), segments=False)
"""The frame of T5 with another token at the end: the small vocabulary has no `</s>`."""


def test_both_texts_end(tmp_path: Path) -> None:
    """Both are cut to the length, and keep the end; all accepted targets are recorded uncut."""
    tokenizer = import_tokenizer(write_vocabulary(tmp_path / "words"), tmp_path / "ours")
    kind = TargetRows(FACTS, Form(ENDING, 4), tokenizer, "corpus", "f")
    items = [
        SourceTarget("good film", ("dull", "bad"), "a ", 0), SourceTarget("film", ("a very good plot .",), "", 1),
        SourceTarget("\u0300", ("a",), "", 2), SourceTarget("a", ("\u0300",), "", 3), Rejected("fields", 4),
    ]  # fmt: skip
    rows = kind.rows(items)
    words = {json.loads(row["record"].tobytes())["source"]: row for row in rows}
    ids = tokenizer.encode(["a good film", "dull", "a very good"])
    assert words["good film"]["input_ids"].tolist() == [*ids[0].ids, 3]
    assert words["good film"]["target_ids"].tolist() == [*ids[1].ids, 3]
    assert json.loads(words["good film"]["record"].tobytes())["targets"] == ["dull", "bad"]
    assert words["film"]["target_ids"].tolist() == [*ids[2].ids, 3]
    assert kind.counts["refused"] == {"no_tokens": 2, "fields": 1}
    assert kind.counts["notes"] == {"targets_cut": 1}
    assert kind.counts["truncated_tokens"] == 2
